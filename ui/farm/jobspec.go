package farm

import (
	"strconv"
	"strings"
	"time"

	"svc/ui/kit"
)

// requires are the labels that a runner has to have; sets of which one is enough are
// joined by "or".
func (o one) requires() (list []string) {
	if r := o.Job.Spec.Requires; r.Labels != nil {
		list = append(list, *r.Labels...)
	}
	if either := o.Job.Spec.Requires.AnyOf; either != nil {
		var sets []string
		for _, set := range *either {
			if set != nil {
				sets = append(sets, strings.Join(*set, " and "))
			}
		}
		if len(sets) > 0 {
			list = append(list, strings.Join(sets, " or "))
		}
	}
	return list
}

// sandboxed says in what the steps run, and within which limits.
func (o one) sandboxed() (kind, limits string) {
	s := o.Job.Spec.Sandbox
	kind = "bubblewrap"
	if s.Kind != nil {
		kind = string(*s.Kind)
	}
	if s.Network != nil && kind != "none" {
		kind += ", network " + string(*s.Network)
	}
	var list []string
	if s.Cpus != nil {
		list = append(list, strconv.FormatFloat(*s.Cpus, 'f', -1, 64)+" CPUs")
	}
	if s.MemoryMiB != nil {
		list = append(list, kit.Bytes(*s.MemoryMiB<<20))
	}
	if t := o.Job.Spec.Timeouts.RunSeconds; t != nil {
		list = append(list, kit.Took(time.Duration(*t)*time.Second))
	}
	return kind, strings.Join(list, ", ")
}
