package reply

// Problems of parameters and headers that must have exactly one value.
const (
	EmptyValue    = "must not be empty"
	RepeatedValue = "must not be sent twice"
)

// SingleValueProblem returns what is wrong with the values of a query parameter that must have one
// value, or "" if nothing is. An empty value is refused because it would pass for an absent
// parameter: a script's unset variable would then ask for everything. A repeated one is ambiguous.
func SingleValueProblem(values []string) (wrong string) {
	switch {
	case len(values) > 1:
		return RepeatedValue
	case len(values) == 1 && values[0] == "":
		return EmptyValue
	}
	return ""
}
