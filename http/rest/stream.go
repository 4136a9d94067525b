package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/events"
	"svc/events/feed"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/rest/door"
)

func (s *Server) streamRoutes() door.Section {
	return door.Section{Tag: "Live updates", About: "Live updates of the workspace.", Routes: []door.Route{
		door.Query(s.streamEvents, door.Route{
			Method: "GET", Path: "/events/stream", Guard: door.AnyMemberOrReadToken,
			Limits: middleware.Limits{Time: door.StreamLimit, Stream: true},
			ID:     "streamEvents", Summary: "Stream events",
			Text: "Streams the changes of the workspace as server-sent events, each once and in the order of `seq`, which is the event's id. " +
				"An event names what happened (`kind`) and to what (`target`), not the new state. To resume without loss, reconnect with " +
				"`Last-Event-ID`, as browsers do. The first event, `ready`, contains the workspace and the `seq` after which the stream " +
				"begins; if that is not the one that you sent, reload your data. Events that the caller may not read are left out.\n\n" +
				"If a backup is restored, the workspace may lack events that it had, and their numbers are used again. Open streams then " +
				"send `ready` another time: reload your data.\n\n" +
				"The stream ends when the caller's rights change, after an hour, or when the service stops. A comment line is sent every " +
				"15 seconds as a heartbeat. The connection is closed if the client reads nothing for 10 seconds. A caller can have 12 " +
				"streams: 429 `rate_limited`.",
			More:    describeAudiences(),
			OwnSlot: true, Answer: describeStream,
		}),
	}}
}

type streamQuery struct {
	LastEventID string `header:"Last-Event-ID" maxLength:"19" doc:"The id of the last event received. The stream resumes after it. By default the stream begins with the next event." example:"4182"`
}

func (q *streamQuery) after() (seq int64, ok bool, err error) {
	if q.LastEventID == "" {
		return 0, false, nil
	}
	seq, err = strconv.ParseInt(q.LastEventID, 10, 64)
	if err != nil || seq < 0 {
		return 0, false, fault.Field("Last-Event-ID", "must be the id of an event: 0 or more")
	}
	return seq, true, nil
}

// audienceOf returns the audience that a caller belongs to.
func audienceOf(c *door.Caller) events.Audience {
	switch {
	case c.Person == nil:
		return events.Everybody
	case c.Person.Role.May(events.ReadAudit):
		return events.Administrators
	}
	return events.Members
}

// A stream sends the workspace's events to one caller.
type stream struct {
	caller    *door.Caller
	watch     *feed.Watch
	seq       int64     // of the last event that was written or left out
	checkedAt time.Time // when the caller's rights were last checked
	heartbeat time.Duration
	out       *door.DeadlineWriter
}

func (s *Server) streamEvents(ctx context.Context, in *streamQuery) (_ *huma.StreamResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, door.BeginLimit)
	defer cancel()
	c := door.CallerOf(ctx)
	seq, resumed, err := in.after()
	if err != nil {
		return nil, err
	}
	if err := s.AcquireSlot(ctx, s.Bounds.Streams); err != nil {
		return nil, err
	}
	st := &stream{
		caller: c, watch: s.Live.Watch(c.Workspace, nounsFor(audienceOf(c))), seq: seq, checkedAt: time.Now(), heartbeat: door.StreamHeartbeat,
	}
	head, err := st.watch.Head(ctx)
	if err != nil {
		st.watch.Close()
		return nil, err
	}
	if !resumed || seq > head { // seq is of another workspace
		st.seq = head
	}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		defer st.watch.Close()
		st.out = door.BeginEvents(w)
		if err := s.follow(r.Context(), st); err != nil && r.Context().Err() == nil {
			s.Log.InfoContext(r.Context(), "event stream failed", "err", err)
		}
	}), nil
}

// follow runs a stream until the client disconnects or loses its rights, the time limit is reached, or the
// service stops. The client reconnects and resumes after the last id.
func (s *Server) follow(ctx context.Context, st *stream) error {
	if err := st.writeReady(); err != nil {
		return err
	}
	check, heartbeat := time.NewTicker(door.RecheckEvery), time.NewTicker(st.heartbeat)
	defer check.Stop()
	defer heartbeat.Stop()
	for {
		more, err := s.writeMore(ctx, st)
		if err != nil {
			return err
		}
		if more { // all events may have been left out, so a heartbeat may be due
			select {
			case <-s.Ending:
				return nil
			case <-heartbeat.C:
				err = st.writeHeartbeat()
			default:
			}
			if err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Ending:
			return nil
		case <-st.watch.Moved:
		case <-check.C:
			err = s.check(ctx, st)
		case <-heartbeat.C:
			err = st.writeHeartbeat()
		}
		if err != nil {
			return err
		}
	}
}

// writeReady says where the stream begins.
func (st *stream) writeReady() error {
	ready := streamReady{st.seq, "ready", door.StreamRetry, streamReadyData{st.caller.Workspace.String(), st.seq}}
	return st.out.WriteAndFlush(ready.text())
}

// restart continues a stream at the head of a log that was set back. The client has events that are gone, and so
// may the rights of its caller be.
func (s *Server) restart(ctx context.Context, st *stream) (err error) {
	if st.seq, err = st.watch.Head(ctx); err != nil {
		return err
	}
	if err := s.check(ctx, st); err != nil {
		return err
	}
	return st.writeReady()
}

// writeHeartbeat sends a comment with the position as id, so that a client that resumes skips the events
// that were left out.
func (st *stream) writeHeartbeat() error {
	return st.out.WriteAndFlush(fmt.Appendf(nil, ": still here\nid: %d\n\n", st.seq))
}

// writeMore writes the next page of events. If events of the page change rights, it checks the caller's
// rights before it writes any. more is false if there were no events.
func (s *Server) writeMore(ctx context.Context, st *stream) (more bool, err error) {
	list, err := st.watch.After(ctx, st.seq)
	if errors.Is(err, feed.ErrSetBack) {
		return true, s.restart(ctx, st)
	}
	if err != nil || len(list) == 0 {
		return false, err
	}
	var page bytes.Buffer
	rights := time.Since(st.checkedAt) > door.RecheckEvery // writing has taken long
	for _, n := range list {
		noun := events.NounOf(n.Kind)
		rights = rights || noun.Rights
		if noun.Audience >= audienceOf(st.caller) && events.Schema(n.Kind) > 0 { // an unknown kind may have any text
			page.Write(newStreamEvent(n).text())
		}
	}
	if rights {
		if err := s.check(ctx, st); err != nil {
			return false, err
		}
	}
	st.seq = list[len(list)-1].Seq
	if page.Len() == 0 {
		return true, nil
	}
	return true, st.out.WriteAndFlush(page.Bytes())
}

// check checks the caller's rights again.
func (s *Server) check(ctx context.Context, st *stream) error {
	st.checkedAt = time.Now()
	return s.Recheck(ctx, st.caller)
}
