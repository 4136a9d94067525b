package events

// CommandDenied says that somebody asked for what they may not have. Each
// denial is a stream of its own, so that asking again and again holds nobody up.
type CommandDenied struct {
	Action string `json:"action"`            // the kind of the event that did not happen
	Target ID     `json:"targetId,omitzero"` // what it would have happened to
	Name   string `json:"targetName,omitempty"`
	Code   string `json:"code"` // of the refusal
}

func (CommandDenied) Kind() string { return "command.denied" }
