package events

// audits are uses of the audit log that are themselves recorded.
var audits = Noun{
	Name: "audit", Audience: Administrators,
	people: [][]decoder{
		decodersOf[AuditExported](),
	},
}

// AuditExported says that somebody exported the audit log: the records up to the number
// UpTo that matched Filter.
type AuditExported struct {
	Format string      `json:"format"` // ndjson, csv
	Filter AuditFilter `json:"filter"`
	UpTo   int64       `json:"upTo"`
}

func (AuditExported) Kind() string               { return "audit.exported" }
func (AuditExported) target(r *Record) Target    { return Target{"audit", r.Stream, ""} }
func (AuditExported) changes(r *Record) []Change { return r.allFields() }

// An AuditFilter says which records were asked for, with the request's parameters.
type AuditFilter struct {
	From      string `json:"from,omitempty" format:"date-time"`
	To        string `json:"to,omitempty" format:"date-time"`
	Actor     string `json:"actor,omitempty"`
	ActorType string `json:"actorType,omitempty"`
	Category  string `json:"category,omitempty"`
	Action    string `json:"action,omitempty"`
	Target    string `json:"target,omitempty"`
	Q         string `json:"q,omitempty"`
}

// An Undecoded takes the place of a stored event that this build cannot decode, because a
// newer build wrote it or its bytes are damaged. It is never appended.
type Undecoded struct{ Name string }

// Kind returns the stored kind.
func (e Undecoded) Kind() string { return e.Name }
