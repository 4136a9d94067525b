package schema

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// DescribeLines describes NDJSON with lines like the example, as a list of them.
func DescribeLines[T any](schemas huma.Registry, example T) *huma.MediaType {
	return &huma.MediaType{
		Schema:  &huma.Schema{Type: huma.TypeArray, Items: schemas.Schema(reflect.TypeFor[T](), true, "")},
		Example: []T{example},
	}
}
