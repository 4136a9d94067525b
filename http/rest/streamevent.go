package rest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"svc/events"
	"svc/events/feed"
)

// What the stream says, as the description has it: the fields of a server-sent
// event, its data decoded.
type (
	streamReady struct {
		ID    int64           `json:"id" example:"4181"`
		Event string          `json:"event" enum:"ready"`
		Retry int             `json:"retry" doc:"Milliseconds to wait before coming again." example:"2000"`
		Data  streamReadyData `json:"data"`
	}
	streamReadyData struct {
		Workspace string `json:"workspace" format:"uuid" doc:"The workspace that the stream is about."`
		Seq       int64  `json:"seq" doc:"The stream tells of the events after this one."`
	}

	streamEvent struct {
		ID    int64           `json:"id" example:"4182"`
		Event streamKind      `json:"event" doc:"The name to listen for: the kind, as in data. Later versions may have more."`
		Data  streamEventData `json:"data"`
	}
	streamEventData struct {
		Seq    int64        `json:"seq" doc:"The number of the event in the workspace's log."`
		At     timestamp    `json:"at"`
		Kind   streamKind   `json:"kind"`
		Target streamTarget `json:"target" doc:"What it happened to."`
	}
	streamTarget struct {
		Type string `json:"type" example:"run"`
		ID   string `json:"id" example:"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"`
	}
)

func newStreamEvent(n feed.News) streamEvent {
	kind := streamKind(n.Kind)
	return streamEvent{n.Seq, kind, streamEventData{n.Seq, at(n.At), kind, streamTarget{n.Target.Type, n.Target.ID.String()}}}
}

// text is what is sent.
func (e streamReady) text() []byte {
	return fmt.Appendf(nil, "retry: %d\n\n%s", e.Retry, eventText(e.ID, e.Event, e.Data))
}

func (e streamEvent) text() []byte { return eventText(e.ID, string(e.Event), e.Data) }

func eventText(id int64, event string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // texts and numbers
	}
	return fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", id, event, text)
}

// A streamKind is a kind of event that some caller is told of.
type streamKind string

// Schema lists them.
func (streamKind) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Examples: []any{exampleEvent.Event}}
	for _, kind := range events.Kinds() {
		if events.NounOf(kind).Audience != events.Nobody {
			s.Enum = append(s.Enum, kind)
		}
	}
	return s
}

// nounsFor lists the nouns whose events an audience is told of.
func nounsFor(a events.Audience) []string {
	return events.NounsWhere(func(n events.Noun) bool { return n.Audience >= a })
}

// nounsOnlyFor lists those of which only an audience and the ones before it are told.
func nounsOnlyFor(a events.Audience) string {
	list := events.NounsWhere(func(n events.Noun) bool { return n.Audience == a })
	return "`" + strings.Join(list, ".*`, `") + ".*`"
}

// describeStream describes the answer of the stream, which is no JSON of ours.
func describeStream(schemas huma.Registry) *huma.Response {
	schema := func(t reflect.Type) *huma.Schema { return schemas.Schema(t, true, "") }
	return &huma.Response{
		Description: "Server-sent events, for as long as it goes well; described as a list of them, with their data decoded. " +
			"The first, `ready`, says in which workspace the stream is and after which event it begins. As they are sent:\n\n```\n" +
			string(exampleReady.text()) + string(exampleEvent.text()) + "```\n",
		Content: map[string]*huma.MediaType{"text/event-stream": {
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{
				OneOf: []*huma.Schema{schema(reflect.TypeFor[streamReady]()), schema(reflect.TypeFor[streamEvent]())},
			}},
			Example: []any{exampleReady, exampleEvent},
		}},
	}
}

// describeAudiences says who is told of what.
func describeAudiences() string {
	return fmt.Sprintf("A token is told of %s; a member of %s as well; an Owner or Maintainer also of %s.",
		nounsOnlyFor(events.Everybody), nounsOnlyFor(events.Members), nounsOnlyFor(events.Administrators))
}

var (
	exampleReady = streamReady{4181, "ready", streamRetry, streamReadyData{exampleID, 4181}}
	exampleEvent = streamEvent{4182, "run.stage_entered", streamEventData{
		4182, exampleTime, "run.stage_entered", streamTarget{"run", exampleID},
	}}
)
