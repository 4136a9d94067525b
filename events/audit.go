package events

// audits are uses of the audit log that it tells itself.
var audits = Noun{
	Name: "audit", Audience: Administrators,
	kinds: [][]decoder{
		of[AuditExported](),
	},
}

// AuditExported says that somebody took a copy of the audit log: what Filter
// left of the records up to the number UpTo.
type AuditExported struct {
	Format string      `json:"format"` // ndjson, csv
	Filter AuditFilter `json:"filter"`
	UpTo   int64       `json:"upTo"`
}

func (AuditExported) Kind() string               { return "audit.exported" }
func (AuditExported) target(r *Record) Target    { return Target{"audit", r.Stream, ""} }
func (AuditExported) changes(r *Record) []Change { return r.stated() }

// An AuditFilter is what records were asked for, in the words of the request.
type AuditFilter struct {
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	Actor     string `json:"actor,omitempty"`
	ActorType string `json:"actorType,omitempty"`
	Action    string `json:"action,omitempty"`
	Target    string `json:"target,omitempty"`
	Q         string `json:"q,omitempty"`
}

// An Unread stands for a stored event that this build cannot decode: a newer
// build wrote it, or its bytes are damaged. It is never appended.
type Unread struct{ Name string }

// Kind returns the kind that is stored, whatever that is.
func (e Unread) Kind() string { return e.Name }
