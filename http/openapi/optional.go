package openapi

import (
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// An OptionalTime is a time in a query. Every value may be sent, the zero time too, so Sent says whether one was.
type OptionalTime struct {
	Time time.Time
	Sent bool
}

// Receiver implements [huma.ParamWrapper].
func (o *OptionalTime) Receiver() reflect.Value { return reflect.ValueOf(&o.Time).Elem() }

// OnParamSet implements [huma.ParamReactor].
func (o *OptionalTime) OnParamSet(isSet bool, _ any) { o.Sent = isSet }

// Schema implements [huma.SchemaProvider].
func (OptionalTime) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[time.Time]())
}
