package farm

import (
	"slices"
	"strings"

	"svc/events"
	"svc/fault"
	"svc/input"
)

const (
	maxLabels    = 32 // from a person, and as many from the machine
	maxCapacity  = 64
	maxReason    = 500
	maxSandboxes = 8
)

// A Hello is what an agent reports about itself when it connects.
type Hello struct {
	Labels   []string
	Capacity int
	Agent    events.Agent
}

// Connect records that the runner is online. It returns no event if that is known and
// nothing has changed. If quiet is true, changes of an online runner are not recorded.
func (r *Runner) Connect(h Hello, quiet bool) ([]events.Event, error) {
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.ended != "":
		return nil, ErrRunnerOver
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	e := events.RunnerOnline{
		Runner: r.id, Name: r.name, Agent: storedAgent(h.Agent),
		Labels: labelsOf(r.minted, h, r.name, r.selfNamed), Capacity: min(max(h.Capacity, 1), r.limit),
	}
	same := slices.Equal(e.Labels, r.labels) && e.Capacity == r.capacity && sameAgent(e.Agent, r.agent)
	if r.online && (quiet || same) {
		return nil, nil
	}
	return oneEvent(e)
}

// Disconnect records that the runner is offline. It returns no event if that is known.
func (r *Runner) Disconnect(why events.OfflineReason) ([]events.Event, error) {
	if !r.online {
		return nil, nil
	}
	return oneEvent(events.RunnerOffline{Runner: r.id, Name: r.name, Reason: why})
}

func sameAgent(a, b events.Agent) bool {
	return a.Version == b.Version && a.OS == b.OS && a.Arch == b.Arch && slices.Equal(a.Sandboxes, b.Sandboxes)
}

// storedAgent returns an agent as it is stored: its list of sandboxes is empty rather than null.
func storedAgent(a events.Agent) events.Agent {
	if a.Sandboxes == nil {
		a.Sandboxes = []string{}
	}
	return a
}

func (h Hello) check() error {
	if h.Capacity > maxCapacity {
		return fault.Field("capacity", "must be %d or less", maxCapacity)
	}
	if err := checkAgent(h.Agent); err != nil {
		return err
	}
	return checkLabels("labels", h.Labels)
}

// checkAgent refuses texts that no genuine agent sends.
func checkAgent(a events.Agent) error {
	if len(a.Sandboxes) > maxSandboxes {
		return fault.Field("agent.sandboxes", "must have %d items or fewer", maxSandboxes)
	}
	for _, text := range []struct{ field, text string }{{"agent.version", a.Version}, {"agent.os", a.OS}, {"agent.arch", a.Arch}} {
		if err := checkWord(text.field, text.text); err != nil {
			return err
		}
	}
	for _, kind := range a.Sandboxes {
		if err := checkWord("agent.sandboxes", kind); err != nil {
			return err
		}
	}
	return nil
}

func checkWord(field, text string) error {
	if err := input.Word.Check(field, text); err != nil {
		return err
	}
	return input.NoTokens(map[string]string{field: text})
}

// checkLabels refuses malformed labels and those that only the service sets.
func checkLabels(field string, labels []string) error {
	if len(labels) > maxLabels {
		return fault.Field(field, "must have %d items or fewer", maxLabels)
	}
	for _, l := range labels {
		if err := input.Label.Check(field, l); err != nil {
			return err
		}
		if events.IsServiceLabel(l) {
			return fault.Field(field, "must not begin with %s: the service sets these", strings.Join(events.ServiceLabels(), ", "))
		}
		if input.HasToken(l) {
			return fault.Field(field, "must not hold a service token")
		}
	}
	return nil
}

// labelsOf returns the labels of a runner: those that a person gave, those that the service sets, and those of the
// machine, to which a name belongs that the machine chose.
func labelsOf(minted []string, h Hello, name string, selfNamed bool) []string {
	list := append(slices.Clone(minted), "os="+h.Agent.OS, "arch="+h.Agent.Arch)
	for _, kind := range h.Agent.Sandboxes {
		list = append(list, "sandbox="+kind)
	}
	for _, l := range h.Labels {
		list = append(list, events.MachineLabel+l)
	}
	own := "runner=" + name
	if selfNamed {
		own = events.MachineLabel + own
	}
	return events.RunnerLabels(minted, append(list, own))
}

// cleanNote returns the stored form of a person's note about a runner.
func cleanNote(note string) (string, error) {
	if len([]rune(note)) > maxReason || strings.ContainsRune(note, 0) {
		return "", fault.Field("note", "must have %d characters or fewer, and no NUL", maxReason)
	}
	note = input.CleanText(note)
	return note, input.NoTokens(map[string]string{"note": note})
}
