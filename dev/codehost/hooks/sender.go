// Package hooks tells addresses of what changes in repositories of the code host, with the headers and signatures of GitHub
// and of Gitea, and keeps the addresses by GitHub's interface. What could not be delivered is not sent again.
package hooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"svc/dev/codehost/record"
	"svc/events"
)

const (
	maxQueue = 1000 // deliveries that wait; more are dropped
	workers  = 4
	patience = 10 * time.Second // with an address, as GitHub has it
)

// A Sender sends deliveries. Nil sends none.
type Sender struct {
	queue  chan delivery
	client *http.Client
	log    *slog.Logger
}

type delivery struct {
	url    string
	header http.Header
	body   []byte
}

// NewSender returns a sender whose deliveries wait until Run is called.
func NewSender(log *slog.Logger) *Sender {
	return &Sender{make(chan delivery, maxQueue), &http.Client{Timeout: patience}, log}
}

// Run sends until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case d := <-s.queue:
					s.send(ctx, d)
				}
			}
		})
	}
	group.Wait()
}

func (s *Sender) send(ctx context.Context, d delivery) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(d.body))
	if err == nil {
		q.Header = d.header
		var a *http.Response
		if a, err = s.client.Do(q); err == nil {
			_ = a.Body.Close()
		}
	}
	if err != nil {
		s.log.DebugContext(ctx, "deliver", "url", d.url, "err", err)
	}
}

// Tell tells the hooks of a repository that want to know of an event. Content that its receivers do not need is left out.
func (s *Sender) Tell(r *record.Record, event, by string, content map[string]any) {
	if s == nil {
		return
	}
	content["repository"], content["sender"] = map[string]any{"id": r.ID, "full_name": r.Name}, map[string]any{"login": by}
	body, err := json.Marshal(content)
	if err != nil {
		panic(err) // the type is a bug
	}
	for _, h := range r.Hooks {
		if !h.Active || !slices.Contains(h.Events, event) {
			continue
		}
		select {
		case s.queue <- delivery{h.URL, headers(event, h.Secret, body), body}:
		default:
		}
	}
}

// headers returns those of a delivery. Names are as the hosts write them.
func headers(event, secret string, body []byte) http.Header {
	code := hmac.New(sha256.New, []byte(secret))
	code.Write(body)
	signature, id := hex.EncodeToString(code.Sum(nil)), events.NewID(time.Now()).String()
	return http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"GitHub-Hookshot/codehost"},
		"X-GitHub-Event": {event}, "X-GitHub-Delivery": {id}, "X-Hub-Signature-256": {"sha256=" + signature},
		"X-Gitea-Event": {event}, "X-Gitea-Delivery": {id}, "X-Gitea-Signature": {signature},
	}
}
