package rest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// Every kind of event has an audience and is in the description, because clients listen by name.
func TestDescriptionHasEveryStreamKind(t *testing.T) {
	doc := described(t)
	items := doc.Get("paths./api/v1/events/stream.get.responses.200.content.text/event-stream.schema.items.oneOf")
	require.Equal(t, `["#/components/schemas/StreamReady","#/components/schemas/StreamEvent"]`, items.Get("#.$ref").Raw)
	listed := map[string]bool{}
	for _, kind := range doc.Get("components.schemas.StreamEvent.properties.event.enum").Array() {
		listed[kind.String()] = true
	}
	text := doc.Get("paths./api/v1/events/stream.get.description").String()
	for _, kind := range events.Kinds() {
		require.True(t, listed[kind], "%s is not described", kind)
		require.Contains(t, text, "`"+events.NounOf(kind).Name+".*`")
	}
	require.Len(t, listed, len(events.Kinds()))
	require.JSONEq(t, doc.Get("components.schemas.StreamEvent.properties.event.enum").Raw,
		doc.Get("components.schemas.StreamEventData.properties.kind.enum").Raw)
}
