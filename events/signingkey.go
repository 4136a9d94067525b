package events

// signingKeys sign the checkpoints of a log.
var signingKeys = Noun{
	Name: "signing_key", Audience: Administrators,
	people: [][]decoder{
		decodersOf[SigningKeyReplaced](),
	},
}

// SigningKeyStream is the stream of a workspace that records which keys its log was signed
// with. It has no aggregate. It is a version 7 UUID, like every id.
var SigningKeyStream = ID{6: 7 << 4, 8: 0b10 << 6, 15: 1}

// SigningKeyReplaced says that the log's signing key could no longer be opened and was
// replaced. From and To are the public keys. Records after UpTo, up to this event, had not
// been signed until then.
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
