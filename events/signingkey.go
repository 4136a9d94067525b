package events

// signingKeys sign a log.
var signingKeys = Noun{
	Name: "signing_key", Audience: Administrators,
	kinds: [][]decoder{
		of[SigningKeyReplaced](),
	},
}

// SigningKeyStream is the stream of a workspace that says which keys its log was
// signed with. No aggregate has it. It is a UUID of version 7, like every id.
var SigningKeyStream = ID{6: 7 << 4, 8: 0b10 << 6, 15: 1}

// SigningKeyReplaced says that the key which signs the log could not be opened any
// more, and another took its place. Both are named by their public sides. What
// follows UpTo, up to this event, nobody had signed for until then.
type SigningKeyReplaced struct {
	From string `json:"from"` // signed the records up to UpTo
	To   string `json:"to"`
	UpTo int64  `json:"upTo"`
}

func (SigningKeyReplaced) Kind() string            { return "signing_key.replaced" }
func (SigningKeyReplaced) target(r *Record) Target { return Target{"signing_key", r.Stream, ""} }
func (e SigningKeyReplaced) changes(*Record) []Change {
	return []Change{{"verifierKey", e.From, e.To}, {"signedUpTo", nil, e.UpTo}}
}
