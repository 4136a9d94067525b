package schema

import "github.com/danielgtaylor/huma/v2"

// AtLeastOne is embedded in a body that needs at least one field.
type AtLeastOne struct{}

// TransformSchema sets minProperties.
func (AtLeastOne) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	one := 1
	s.MinProperties = &one
	return s
}
