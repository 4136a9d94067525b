package schema

// Paging selects a page of a list.
type Paging struct {
	Limit  int `query:"limit" minimum:"1" maximum:"100" default:"25" doc:"Maximum number of items to return."`
	Offset int `query:"offset" minimum:"0" maximum:"100000" default:"0" doc:"Number of items to skip."`
}

// A List is a page of items. Total counts the items on all pages.
type List[T any] struct {
	Total  int `json:"total"`
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
	Items  []T `json:"items" nullable:"false"`
}

// NewList returns a page of a list, with the rows as show renders them.
func NewList[R, T any](rows []R, total int, p Paging, show func(R) T) List[T] {
	out := List[T]{Total: total, Limit: p.Limit, Offset: p.Offset, Items: make([]T, 0, len(rows))}
	for _, r := range rows {
		out.Items = append(out.Items, show(r))
	}
	return out
}
