package reply

// What is wrong with what may be sent once.
const (
	SentEmpty = "must not be empty"
	SentTwice = "must not be sent twice"
)

// Once returns what is wrong with the values of a query parameter that was sent and
// has one value; "" if nothing is. An empty one is refused because it would pass for
// absent, which is how a script's unset variable comes to ask for everything, and of
// repeated ones nobody knows which was meant.
func Once(values []string) (wrong string) {
	switch {
	case len(values) > 1:
		return SentTwice
	case len(values) == 1 && values[0] == "":
		return SentEmpty
	}
	return ""
}
