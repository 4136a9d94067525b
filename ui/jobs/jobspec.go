package jobs

import (
	"strconv"
	"strings"
	"time"

	"svc/ui/kit"
)

// requires returns the labels that a runner must have. Alternative sets of labels are one
// entry, joined by "or".
func (d jobData) requires() (list []string) {
	if r := d.Job.Spec.Requires; r.Labels != nil {
		list = append(list, *r.Labels...)
	}
	if anyOf := d.Job.Spec.Requires.AnyOf; anyOf != nil {
		var sets []string
		for _, set := range *anyOf {
			sets = append(sets, strings.Join(set, " and "))
		}
		if len(sets) > 0 {
			list = append(list, strings.Join(sets, " or "))
		}
	}
	return list
}

// sandbox describes the sandbox of the steps and its limits.
func (d jobData) sandbox() (kind, limits string) {
	s := d.Job.Spec.Sandbox
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
	if t := d.Job.Spec.Timeouts.RunSeconds; t != nil {
		list = append(list, kit.Duration(time.Duration(*t)*time.Second))
	}
	return kind, strings.Join(list, ", ")
}
