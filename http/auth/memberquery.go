package auth

import (
	"net/url"
	"time"

	"svc/events"
	"svc/input"
	"svc/projections"
)

// memberFields are the fields of a member that a query may name.
var memberFields = map[string]projections.MemberField{
	"id": projections.MemberByID, "userId": projections.MemberByUser,
	"role": projections.MemberByRole, "createdAt": projections.MemberByJoined,
}

// Operators of a filter: those that compare with a value, those that look into a
// text, and those that take several values.
var (
	comparing = map[string]projections.Operator{
		"": projections.Equal, "eq": projections.Equal, "ne": projections.NotEqual,
		"lt": projections.Less, "lte": projections.LessEqual, "gt": projections.Greater, "gte": projections.GreaterEqual,
	}
	searching = map[string]projections.Operator{
		"contains": projections.Contains, "starts_with": projections.StartsWith, "ends_with": projections.EndsWith,
	}
	listing = map[string]projections.Operator{"in": projections.In, "not_in": projections.NotIn}
)

// arrange takes from the query which members are asked for, and in which order.
func (v *visit) arrange(q *projections.MemberQuery) (err error) {
	in := v.URL.Query()
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
	if in.Get("filterField") != "" {
		q.Filter, err = memberFilter(in)
	}
	return err
}

func memberFilter(in url.Values) (f projections.MemberFilter, err error) {
	field, ok := memberFields[in.Get("filterField")]
	if !ok {
		return f, errQuery("filterField", "Invalid option")
	}
	f.Field = field
	name, values := in.Get("filterOperator"), in["filterValue"]
	if f.Operator, ok = listing[name]; ok {
		f.Value, err = memberValues(field, values)
		return f, err
	}
	if len(values) > 1 {
		return f, errQuery("filterValue", "Invalid input: expected string, received array")
	}
	value := in.Get("filterValue")
	if f.Operator, ok = searching[name]; ok && field != projections.MemberByJoined { // a time is no text
		f.Value = input.Lower(value) // as ids and roles are shown here
		return f, nil
	}
	if f.Operator, ok = comparing[name]; !ok {
		return f, errQuery("filterOperator", "Invalid option")
	}
	f.Value, err = memberValue(field, value)
	return f, err
}

// memberValues reads what a field is one of.
func memberValues(field projections.MemberField, texts []string) (any, error) {
	switch field {
	case projections.MemberByRole:
		return each(texts, roleValue)
	case projections.MemberByJoined:
		return each(texts, timeValue)
	}
	return each(texts, events.ParseID)
}

func each[T any](texts []string, read func(string) (T, error)) (list []T, err error) {
	list = []T{} // of none: nobody is in it, and everybody is not
	for _, text := range texts {
		value, err := read(text)
		if err != nil {
			return nil, errFilterValue
		}
		list = append(list, value)
	}
	return list, nil
}

// memberValue reads what a field is compared with.
func memberValue(field projections.MemberField, text string) (value any, err error) {
	switch field {
	case projections.MemberByRole:
		value, err = roleValue(text)
	case projections.MemberByJoined:
		value, err = timeValue(text)
	default:
		value, err = events.ParseID(text)
	}
	if err != nil {
		return nil, errFilterValue
	}
	return value, nil
}

var errFilterValue = errQuery("filterValue", "Invalid input")

func roleValue(text string) (string, error)    { return input.Lower(text), nil }
func timeValue(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }
