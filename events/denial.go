package events

import "time"

// denials are commands that somebody asked for in vain.
var denials = Noun{
	Name: "command", Audience: Administrators, NamesTarget: true,
	kinds: [][]decoder{
		of[CommandDenied](),
		of[CommandDenialsOmitted](),
	},
}

// CommandDenied says that somebody asked for what they may not have. Each
// denial is a stream of its own, so that asking again and again holds nobody up.
type CommandDenied struct {
	Action string `json:"action"`            // the kind of the event that did not happen
	Target ID     `json:"targetId,omitzero"` // what it would have happened to
	Name   string `json:"targetName,omitempty"`
	Code   string `json:"code"` // of the refusal
}

func (CommandDenied) Kind() string             { return "command.denied" }
func (e CommandDenied) target(*Record) Target  { return Target{nounOf(e.Action), e.Target, e.Name} }
func (CommandDenied) changes(*Record) []Change { return []Change{} }

// CommandDenialsOmitted says that somebody was denied more, from Since to Until,
// than was recorded: so many denials have no CommandDenied of their own. The actor
// is who asked; where too many did at once it is the system, for all the others.
type CommandDenialsOmitted struct {
	Count int64     `json:"count"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

func (CommandDenialsOmitted) Kind() string               { return "command.denials_omitted" }
func (CommandDenialsOmitted) target(r *Record) Target    { return Target{"workspace", r.Workspace, ""} }
func (CommandDenialsOmitted) changes(r *Record) []Change { return r.stated() }
