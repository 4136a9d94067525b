package rest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/events"
	"svc/events/feed"
	"svc/http/middleware"
	"svc/http/openapi"
)

func (s *Server) streamRoutes() section {
	return section{tag: "Live updates", about: "What changes, while it does.", routes: []route{
		query(s.streamEvents, route{
			method: "GET", path: "/events/stream", guard: readers,
			limits: middleware.Limits{Time: streamLimit, Stream: true},
			id:     "streamEvents", summary: "Follow what happens",
			text: "What changed in the workspace, as server-sent events, each once and in the order of `seq`, which is its id: what" +
				" happened to what (`kind`, `target`), not how it is now. Whoever comes again with the `Last-Event-ID` that they " +
				"have (browsers do by themselves) misses nothing. The first event, `ready`, says in which workspace the stream is" +
				" and after which `seq` it begins: if that is not what you asked for, read anew what you show. Events are left " +
				"out that the caller could not read elsewhere. The stream ends when the caller's rights change, after an hour, or" +
				" when the service stops. A line that begins with a colon every 15 seconds says that it is still there. A reader " +
				"has to take what is sent within 10 seconds. A caller may have 12 streams: 429 `rate_limited`.",
			more:    describeAudiences(),
			ownSlot: true, answer: describeStream,
		}),
	}}
}

const (
	streamLimit    = time.Hour        // then the client comes again
	streamBeat     = 15 * time.Second // between signs of life
	streamPatience = 10 * time.Second // in which a reader has to take something
	streamRetry    = 2000             // milliseconds until a client comes again
)

type streamQuery struct {
	LastEventID string `header:"Last-Event-ID" maxLength:"20" doc:"The id of the last event that was received: the stream goes on after it. Without it, it begins with what happens next." example:"4182"`
}

func (q *streamQuery) after() (seq int64, ok bool, err error) {
	if q.LastEventID == "" {
		return 0, false, nil
	}
	seq, err = strconv.ParseInt(q.LastEventID, 10, 64)
	if err != nil || seq < 0 {
		return 0, false, invalid("Last-Event-ID", "must be the id of an event: 0 or more")
	}
	return seq, true, nil
}

// audience is the one that the caller belongs to.
func (c *caller) audience() events.Audience {
	switch {
	case c.person == nil:
		return events.Everybody
	case c.person.role.May(events.ReadAudit):
		return events.Administrators
	}
	return events.Members
}

// A stream tells one caller what happens in the workspace.
type stream struct {
	caller  *caller
	watch   *feed.Watch
	seq     int64     // of the last event that was written, or left out
	checked time.Time // when the caller was last looked at
	beat    time.Duration
	out     *deadlineWriter
}

func (s *Server) streamEvents(ctx context.Context, in *streamQuery) (_ *huma.StreamResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, beginLimit)
	defer cancel()
	c := callerOf(ctx)
	seq, resumed, err := in.after()
	if err != nil {
		return nil, err
	}
	if err := s.take(ctx, s.bounds.streams); err != nil {
		return nil, err
	}
	st := &stream{caller: c, watch: s.live.Watch(c.workspace, nounsFor(c.audience())), seq: seq, checked: time.Now(), beat: streamBeat}
	head, err := st.watch.Head(ctx)
	if err != nil {
		st.watch.Close()
		return nil, err
	}
	if !resumed || seq > head { // a number of another workspace's
		st.seq = head
	}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		defer st.watch.Close()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // a proxy would wait for more
		st.out = &deadlineWriter{w: w, controller: http.NewResponseController(w), patience: streamPatience}
		if err := s.follow(r.Context(), st); err != nil && r.Context().Err() == nil {
			s.log.InfoContext(r.Context(), "stream broke off", "err", err)
		}
	}), nil
}

// follow runs a stream until the reader goes away or may no longer read, the
// stream has lasted long enough, or the service stops. The reader comes again
// and goes on after the last id.
func (s *Server) follow(ctx context.Context, st *stream) error {
	first := streamReady{st.seq, "ready", streamRetry, streamReadyData{st.caller.workspace.String(), st.seq}}
	if err := st.out.write(first.text()); err != nil {
		return err
	}
	check, beat := time.NewTicker(recheckEvery), time.NewTicker(st.beat)
	defer check.Stop()
	defer beat.Stop()
	for {
		more, err := s.writeMore(ctx, st)
		if err != nil {
			return err
		}
		if more { // perhaps all of it was left out
			select {
			case <-s.ending:
				return nil
			case <-beat.C:
				err = st.stillHere()
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
		case <-s.ending:
			return nil
		case <-st.watch.Moved:
		case <-check.C:
			err = s.check(ctx, st)
		case <-beat.C:
			err = st.stillHere()
		}
		if err != nil {
			return err
		}
	}
}

// stillHere takes the position along: what was left out need not be looked at
// again.
func (st *stream) stillHere() error {
	return st.out.write(fmt.Appendf(nil, ": still here\nid: %d\n\n", st.seq))
}

// writeMore writes the next events. Of a page in which rights have changed
// nothing is written before it is clear that they are not the caller's. more
// is false if there were none.
func (s *Server) writeMore(ctx context.Context, st *stream) (more bool, err error) {
	list, err := st.watch.After(ctx, st.seq)
	if err != nil || len(list) == 0 {
		return false, err
	}
	var page bytes.Buffer
	rights := time.Since(st.checked) > recheckEvery // it is long since, for there is much to write
	for _, n := range list {
		noun := events.NounOf(n.Kind)
		rights = rights || noun.Rights
		if noun.Audience >= st.caller.audience() {
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
	return true, st.out.write(page.Bytes())
}

// check looks whether the caller is who they were when they were let in.
func (s *Server) check(ctx context.Context, st *stream) error {
	st.checked = time.Now()
	return s.recheck(ctx, st.caller)
}
