package farm

import (
	"encoding/json"

	"svc/events"
)

// runnerSnapshot is the stored form of a [Runner]. A runner lives for years, and its stream
// records each time that it connects and disconnects.
type runnerSnapshot struct {
	ID         events.ID            `json:"id"`
	Name       string               `json:"name"`
	SelfNamed  bool                 `json:"selfNamed,omitempty"`
	Labels     []string             `json:"labels"`
	Minted     []string             `json:"minted"`
	Exclusive  []string             `json:"exclusive"`
	Capacity   int                  `json:"capacity"`
	Limit      int                  `json:"limit"`
	Jobs       int                  `json:"jobs"`
	Taken      []events.ID          `json:"taken"`
	Agent      events.Agent         `json:"agent"`
	Connected  bool                 `json:"connected"`
	Online     bool                 `json:"online"`
	Draining   bool                 `json:"draining"`
	DrainNote  string               `json:"drainNote"`
	Over       events.RunnerState   `json:"over"`
	Current    events.Certificate   `json:"current"`
	Next       events.Certificate   `json:"next"`
	Superseded []events.Certificate `json:"superseded"`
}

// Form returns 2.
func (r *Runner) Form() int { return 2 }

// Snapshot returns the state. If the stream is not a runner's, that is the zero state.
func (r *Runner) Snapshot() ([]byte, error) {
	return json.Marshal(runnerSnapshot{
		r.id, r.name, r.selfNamed, r.labels, r.minted, r.exclusive, r.capacity, r.limit, r.jobs, r.taken, r.agent,
		r.connected, r.online, r.draining, r.drainNote, r.ended, r.current, r.next, r.superseded,
	})
}

// Restore sets the state of a snapshot.
func (r *Runner) Restore(snapshot []byte) error {
	var s runnerSnapshot
	if err := json.Unmarshal(snapshot, &s); err != nil {
		return err
	}
	if s.Labels != nil { // in snapshots of earlier versions they are as in their events
		s.Labels = events.RunnerLabels(s.Minted, s.Labels)
	}
	*r = Runner{
		s.ID, s.Name, s.SelfNamed, s.Labels, s.Minted, s.Exclusive, s.Capacity, s.Limit, s.Jobs, s.Taken, s.Agent,
		s.Connected, s.Online, s.Draining, s.DrainNote, s.Over, s.Current, s.Next, s.Superseded,
	}
	return nil
}
