// Package live forwards a workspace's live updates to browsers.
package live

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"svc/http/middleware"
	"svc/ui/client"
	"svc/ui/page"
)

const (
	maxDuration  = time.Hour        // of a stream; the browser then reconnects
	writeTimeout = 10 * time.Second // for one write to a browser
	idleTimeout  = 40 * time.Second // without a line from the service, which sends a keep-alive every 15 s
	maxLine      = 64 << 10         // bytes of a line from the service
	reconnect    = time.Second      // until a browser reconnects: before the page shows that it is outdated
)

// Mount adds GET /w/{workspace}/live, a stream of server-sent events of four kinds.
// "ready" comes first, with the time after which browsers reconnect. "reset" means that a backup was restored:
// events that the browser has are gone, and pages have to fetch everything again. "happened" carries
// {"seq", "kind", "target", "id"}, where target is a noun such as member. "over" carries the reason why no
// stream follows: signed-out or removed. The stream starts after the event number in Last-Event-ID, which a reconnecting browser
// sends, or else in ?after. Streams end when stopping is closed.
func Mount(handle page.Handle, service *client.Service, stopping <-chan struct{}, log *slog.Logger) {
	handle(http.MethodGet, "/w/{workspace}/live", middleware.Limits{Time: maxDuration, Stream: true}, &handler{service, stopping, log})
}

type handler struct {
	service  *client.Service
	stopping <-chan struct{}
	log      *slog.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // or nginx would buffer events
	if r.Method == http.MethodHead {
		return
	}
	out := &eventWriter{w: w, controller: http.NewResponseController(w), after: startOf(r)}

	session := h.service.NewSession(r, r.PathValue("workspace"))
	resp, err := session.StreamEvents(ctx, nil, setLastEventID(out.after))
	for _, cookie := range session.Cookies() {
		http.SetCookie(w, cookie)
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = client.CheckResponse(resp, nil)
	}
	if err != nil {
		out.writeRefusal(ctx, h.log, err)
		return
	}
	defer resp.Body.Close()
	lines := make(chan string)
	reader.Go(func() { readLines(ctx, resp.Body, lines) }) // until the body is closed
	h.forward(ctx, lines, out)
}

const lastEventID = "Last-Event-ID"

// startOf returns the event after which the browser asks the stream to start, "" if it does not.
func startOf(r *http.Request) string {
	return cmp.Or(r.Header.Get(lastEventID), r.URL.Query().Get("after"))
}

// setLastEventID returns an editor of the request to the service that makes the stream start after id.
func setLastEventID(id string) client.RequestEditorFn {
	return func(_ context.Context, upstream *http.Request) error {
		if id != "" {
			upstream.Header.Set(lastEventID, id)
		}
		return nil
	}
}

// readLines sends the lines of body until it ends or a line exceeds maxLine, then closes lines.
func readLines(ctx context.Context, body io.Reader, lines chan<- string) {
	defer close(lines)
	scan := bufio.NewScanner(body)
	scan.Buffer(nil, maxLine)
	for scan.Scan() {
		select {
		case lines <- scan.Text():
		case <-ctx.Done():
			return
		}
	}
}

// forward sends events to the browser until either side disconnects, the service is silent
// for idleTimeout, or the app stops.
func (h *handler) forward(ctx context.Context, lines <-chan string, out *eventWriter) {
	idle := time.NewTimer(idleTimeout)
	defer idle.Stop()
	var e event
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.stopping:
			return
		case <-idle.C:
			return
		case line, ok := <-lines:
			if !ok || !e.addLine(line, out) {
				return
			}
			idle.Reset(idleTimeout)
		}
	}
}

// An event holds the fields read since the last empty line.
type event struct{ id, name, data string }

// addLine adds a line of the service's stream to the event. An empty line ends the event,
// which is then written to out. ok is false if the browser has disconnected.
func (e *event) addLine(line string, out *eventWriter) (ok bool) {
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch field {
	case "id":
		e.id = value
	case "event":
		e.name = value
	case "data":
		e.data = value
	case "":
		if line != "" { // a comment, sent as a keep-alive
			return true
		}
		defer func() { *e = event{} }()
		return e.write(out)
	}
	return true
}

// happened is the data that pages receive about an event.
type happened struct {
	Seq    int64  `json:"seq"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	ID     string `json:"id"`
}

// write writes the event in the form that pages read, and skips data that it cannot parse,
// which a later version of the service may send.
func (e *event) write(out *eventWriter) (ok bool) {
	switch {
	case e.name == "ready":
		return out.ready(e.id)
	case e.data != "":
		var record struct {
			Seq    int64
			Kind   string
			Target struct{ Type, ID string }
		}
		if json.Unmarshal([]byte(e.data), &record) != nil {
			return true
		}
		target := strings.ReplaceAll(record.Target.Type, "_", "-")
		text, err := json.Marshal(happened{record.Seq, record.Kind, target, record.Target.ID})
		return err == nil && out.send(e.id, "happened", string(text))
	case e.id != "":
		return out.keepAlive(e.id)
	}
	return true
}

// An eventWriter writes server-sent events to a browser, each within writeTimeout.
type eventWriter struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	after      string // the event after which the stream was asked to start
	isReady    bool
}

// ready writes that the stream starts after the event with that id. If it starts again, or not where it was asked
// to, the log was set back.
func (w *eventWriter) ready(id string) bool {
	isReset := w.isReady || w.after != "" && w.after != id
	w.isReady = true
	return w.write(fmt.Sprintf("retry: %d\n", reconnect.Milliseconds())) && w.send(id, "ready", "{}") &&
		(!isReset || w.send(id, "reset", "{}"))
}

func (w *eventWriter) send(id, name, data string) bool {
	return w.write(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", id, name, data))
}

// keepAlive writes a comment and the stream's position, from which the browser would reconnect.
func (w *eventWriter) keepAlive(id string) bool { return w.write(": still here\nid: " + id + "\n\n") }

func (w *eventWriter) write(text string) bool {
	if w.controller.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
		return false
	}
	_, err := io.WriteString(w.w, text)
	return err == nil && w.controller.Flush() == nil
}

// writeRefusal answers a request for which the service opened no stream. A person who is no
// longer signed in or a member receives an "over" event, after which the page stops asking.
// Any other failure is answered with 502, after which the browser reconnects.
func (w *eventWriter) writeRefusal(ctx context.Context, log *slog.Logger, err error) {
	r := client.AsRefused(err)
	switch {
	case r != nil && r.Status == http.StatusUnauthorized:
		w.write("event: over\ndata: signed-out\n\n")
	case r != nil && (r.Status == http.StatusNotFound || r.Status == http.StatusForbidden):
		w.write("event: over\ndata: removed\n\n")
	default:
		if !errors.Is(err, context.Canceled) {
			log.WarnContext(ctx, "live updates", "err", err)
		}
		w.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.w.WriteHeader(http.StatusBadGateway)
	}
}
