package events

import "time"

// denials are commands that were refused to the caller.
var denials = Noun{
	Name: "command", Audience: Administrators, NamesTarget: true,
	people: [][]decoder{
		decodersOf[CommandDenied](),
		decodersOf[CommandDenialsOmitted](),
	},
}

// CommandDenied says that a command was refused because the caller may not do it. Each
// denial has a stream of its own, so that recording many of them causes no conflicts.
type CommandDenied struct {
	Action string `json:"action"`            // the kind of the event that would have happened
	Target ID     `json:"targetId,omitzero"` // what it would have happened to
	Name   string `json:"targetName,omitempty"`
	Code   string `json:"code"` // of the refusal
}

func (CommandDenied) Kind() string             { return "command.denied" }
func (e CommandDenied) target(*Record) Target  { return Target{nounOf(e.Action), e.Target, e.Name} }
func (CommandDenied) changes(*Record) []Change { return []Change{} }

// CommandDenialsOmitted says that Count denials from Since to Until were not recorded as
// CommandDenied, because the actor had too many. The actor is the system if all actors
// together had too many. Earlier versions recorded it; now a metric counts them.
type CommandDenialsOmitted struct {
	Count int64     `json:"count"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

func (CommandDenialsOmitted) Kind() string               { return "command.denials_omitted" }
func (CommandDenialsOmitted) target(r *Record) Target    { return Target{"workspace", r.Workspace, ""} }
func (CommandDenialsOmitted) changes(r *Record) []Change { return r.allFields() }
