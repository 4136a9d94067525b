package auth

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/events"
	"svc/input"
	"svc/projections"
)

// memberFields are the fields that queries can sort and filter by.
var memberFields = map[string]projections.MemberField{
	"id": projections.MemberByID, "userId": projections.MemberByUser,
	"role": projections.MemberByRole, "createdAt": projections.MemberByJoined,
}

// Operators of a filter, by what they take: a value, a part of a text, or several values.
var (
	comparisonOperators = map[string]projections.Operator{
		"": projections.Equal, "eq": projections.Equal, "ne": projections.NotEqual,
		"lt": projections.Less, "lte": projections.LessEqual, "gt": projections.Greater, "gte": projections.GreaterEqual,
	}
	textOperators = map[string]projections.Operator{
		"contains": projections.Contains, "starts_with": projections.StartsWith, "ends_with": projections.EndsWith,
	}
	listOperators = map[string]projections.Operator{"in": projections.In, "not_in": projections.NotIn}
)

// setOrderAndFilter sets the order and the filter of q from the request's query.
func (r *request) setOrderAndFilter(q *projections.MemberQuery) (err error) {
	in := r.URL.Query()
	var ok bool
	if name := in.Get("sortBy"); name != "" {
		if q.OrderBy, ok = memberFields[name]; !ok {
			return errQuery("sortBy", "Invalid option")
		}
	}
	switch in.Get("sortDirection") {
	case "", "asc":
	case "desc":
		q.Descending = true
	default:
		return errQuery("sortDirection", "Invalid option")
	}
	switch field := memberFields[in.Get("filterField")]; {
	case in.Get("filterField") == "":
		return nil
	case field == "":
		return errQuery("filterField", "Invalid option")
	case field == projections.MemberByRole:
		q.Roles, err = filterRoles(in)
		return err
	}
	q.Filter, err = memberFilter(in)
	if q.OrderBy == "" && q.Filter.Ranges() { // the index of the filter has this order
		q.OrderBy = q.Filter.Field
	}
	return err
}

func memberFilter(in url.Values) (f projections.MemberFilter, err error) {
	name, values, ok := in.Get("filterOperator"), in["filterValue"], false
	field := memberFields[in.Get("filterField")]
	f.Field = field
	if f.Operator, ok = listOperators[name]; ok {
		f.Value, err = memberValues(field, values)
		return f, err
	}
	if len(values) > 1 {
		return f, errQuery("filterValue", "Invalid input: expected string, received array")
	}
	value := in.Get("filterValue")
	if f.Operator, ok = textOperators[name]; ok && field != projections.MemberByJoined { // a time is not text
		f.Value = input.Lower(value) // ids are in lower case
		return f, nil
	}
	if f.Operator, ok = comparisonOperators[name]; !ok {
		return f, errQuery("filterOperator", "Invalid option")
	}
	f.Value, err = memberValue(field, value)
	return f, err
}

// memberValues parses the values of a list operator.
func memberValues(field projections.MemberField, texts []string) (any, error) {
	if field == projections.MemberByJoined {
		return parseEach(texts, timeValue)
	}
	return parseEach(texts, events.ParseID)
}

func parseEach[T any](texts []string, read func(string) (T, error)) (list []T, err error) {
	list = []T{} // not nil: an empty list matches nobody with in, everybody with not_in
	for _, text := range texts {
		value, err := read(text)
		if err != nil {
			return nil, errFilterValue
		}
		list = append(list, value)
	}
	return list, nil
}

// memberValue parses the value of a comparison.
func memberValue(field projections.MemberField, text string) (value any, err error) {
	if field == projections.MemberByJoined {
		value, err = timeValue(text)
	} else {
		value, err = events.ParseID(text)
	}
	if err != nil {
		return nil, errFilterValue
	}
	return value, nil
}

var errFilterValue = errQuery("filterValue", "Invalid input")

func timeValue(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }

// roleOperators are the operators on roles. They are evaluated on the few role names before the query, which
// then selects members by role.
var roleOperators = map[string]func(role string, values []string) bool{
	"":            func(role string, values []string) bool { return role == values[0] },
	"eq":          func(role string, values []string) bool { return role == values[0] },
	"ne":          func(role string, values []string) bool { return role != values[0] },
	"lt":          func(role string, values []string) bool { return role < values[0] },
	"lte":         func(role string, values []string) bool { return role <= values[0] },
	"gt":          func(role string, values []string) bool { return role > values[0] },
	"gte":         func(role string, values []string) bool { return role >= values[0] },
	"contains":    func(role string, values []string) bool { return strings.Contains(role, values[0]) },
	"starts_with": func(role string, values []string) bool { return strings.HasPrefix(role, values[0]) },
	"ends_with":   func(role string, values []string) bool { return strings.HasSuffix(role, values[0]) },
	"in":          func(role string, values []string) bool { return slices.Contains(values, role) },
	"not_in":      func(role string, values []string) bool { return !slices.Contains(values, role) },
}

// filterRoles returns the roles that a filter on roles selects, never nil.
func filterRoles(in url.Values) ([]events.Role, error) {
	name, values := in.Get("filterOperator"), []string{}
	for _, value := range in["filterValue"] {
		values = append(values, input.Lower(value))
	}
	selects, ok := roleOperators[name]
	if _, list := listOperators[name]; !list {
		if len(values) > 1 {
			return nil, errQuery("filterValue", "Invalid input: expected string, received array")
		}
		if len(values) == 0 {
			values = []string{""}
		}
	}
	if !ok {
		return nil, errQuery("filterOperator", "Invalid option")
	}
	roles := []events.Role{}
	for _, role := range events.Roles() {
		if selects(roleName(role), values) {
			roles = append(roles, role)
		}
	}
	return roles, nil
}
