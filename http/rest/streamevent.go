package rest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"svc/events"
	"svc/events/feed"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
)

// The events of the stream as the OpenAPI document describes them: the fields of a server-sent event, with
// decoded data.
type (
	streamReady struct {
		ID    int64           `json:"id" example:"4181"`
		Event string          `json:"event" enum:"ready"`
		Retry int             `json:"retry" doc:"Milliseconds to wait before reconnecting." example:"2000"`
		Data  streamReadyData `json:"data"`
	}
	streamReadyData struct {
		Workspace string `json:"workspace" format:"uuid" doc:"The id of the workspace."`
		Seq       int64  `json:"seq" doc:"The stream begins after this event."`
	}

	streamEvent struct {
		ID    int64           `json:"id" example:"4182"`
		Event streamKind      `json:"event" doc:"The event's name: its kind, as in data. Later versions may add kinds."`
		Data  streamEventData `json:"data"`
	}
	streamEventData struct {
		Seq    int64             `json:"seq" doc:"The event's sequence number in the workspace's log."`
		At     openapi.Timestamp `json:"at"`
		Kind   streamKind        `json:"kind"`
		Target streamTarget      `json:"target" doc:"What the event is about."`
	}
	streamTarget struct {
		Type string `json:"type" example:"run"`
		ID   string `json:"id" example:"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"`
	}
)

func newStreamEvent(n feed.News) streamEvent {
	kind := streamKind(n.Kind)
	return streamEvent{n.Seq, kind, streamEventData{n.Seq, openapi.FormatTime(n.At), kind, streamTarget{n.Target.Type, n.Target.ID.String()}}}
}

// text returns the event as sent.
func (e streamReady) text() []byte {
	return fmt.Appendf(nil, "retry: %d\n\n%s", e.Retry, door.EventText(e.ID, e.Event, e.Data))
}

func (e streamEvent) text() []byte { return door.EventText(e.ID, string(e.Event), e.Data) }

// A streamKind is a kind of event that has an audience.
type streamKind string

// Schema lists the kinds.
func (streamKind) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Examples: []any{exampleEvent.Event}}
	for _, kind := range events.Kinds() {
		if events.NounOf(kind).Audience != events.Nobody {
			s.Enum = append(s.Enum, kind)
		}
	}
	return s
}

// nounsFor returns the nouns whose events an audience receives.
func nounsFor(a events.Audience) []string {
	return events.NounsWhere(func(n events.Noun) bool { return n.Audience >= a })
}

// nounsOnlyFor lists, for the description, the nouns that an audience receives and wider ones do not.
func nounsOnlyFor(a events.Audience) string {
	list := events.NounsWhere(func(n events.Noun) bool { return n.Audience == a })
	return "`" + strings.Join(list, ".*`, `") + ".*`"
}

// describeStream describes the stream's response, which is not a JSON document.
func describeStream(schemas huma.Registry) *huma.Response {
	schema := func(t reflect.Type) *huma.Schema { return schemas.Schema(t, true, "") }
	return &huma.Response{
		Description: "Server-sent events, described here as a list with decoded data. The first event, `ready`, contains the workspace " +
			"and the `seq` after which the stream begins. As sent:\n\n```\n" +
			string(exampleReady.text()) + string(exampleEvent.text()) + "```\n",
		Content: map[string]*huma.MediaType{"text/event-stream": {
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{
				OneOf: []*huma.Schema{schema(reflect.TypeFor[streamReady]()), schema(reflect.TypeFor[streamEvent]())},
			}},
			Example: []any{exampleReady, exampleEvent},
		}},
	}
}

// describeAudiences describes who receives which events.
func describeAudiences() string {
	return fmt.Sprintf("Tokens receive %s; members also %s; Owners and Maintainers also %s.",
		nounsOnlyFor(events.Everybody), nounsOnlyFor(events.Members), nounsOnlyFor(events.Administrators))
}

var (
	exampleReady = streamReady{4181, "ready", door.StreamRetry, streamReadyData{schema.ExampleID, 4181}}
	exampleEvent = streamEvent{schema.ExampleSeq, "run.stage_entered", streamEventData{
		schema.ExampleSeq, schema.ExampleTime, "run.stage_entered", streamTarget{"run", schema.ExampleID},
	}}
)
