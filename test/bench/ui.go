package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/sessions"
)

const (
	guests      = 100                    // members, each with a browser
	liveLimit   = 10 * time.Second       // for a page to show a change
	liveChanges = 20                     // of a round
	liveGoal    = 500 * time.Millisecond // for the page that is last but one in a hundred
)

// An app is svc-ui before svc-rest, and a workspace of a hundred people who are signed in.
type app struct {
	rest, ui *rest
	slug     string
	member   events.ID // somebody whose role is changed: their own streams end with each change
	cookies  []string  // of an Owner, then of others
}

func (s *site) app(ctx context.Context, db *pgxpool.Pool) (*app, error) {
	addr, err := free(ctx)
	if err != nil {
		return nil, err
	}
	a := &app{}
	if err := a.people(ctx, db); err != nil {
		return nil, err
	}
	if a.rest, err = s.rest(ctx, db.Config().ConnString(), "AUTH_URL=http://"+addr); err != nil {
		return nil, err
	}
	command := exec.Command(filepath.Join("bin", "svc-ui"))
	command.Env = append(os.Environ(), "SVC_UI_ADDR="+addr, "SVC_REST_URL=http://"+a.rest.addr, "AUTH_URL=http://"+addr, "SVC_LOG_LEVEL=warn")
	if a.ui, err = start(ctx, command, addr); err != nil {
		a.rest.stop()
		return nil, err
	}
	return a, nil
}

func (a *app) people(ctx context.Context, db *pgxpool.Pool) error {
	log := newLog(db)
	defer log.Close()
	h := commands.New(log, time.Now)
	store := &sessions.Store{DB: db, Secret: []byte(secret), Now: time.Now, Log: slog.Default()}
	w, err := newWorkspace(ctx, h)
	if err != nil {
		return err
	}
	a.slug = strings.TrimSuffix(w.owner.Name, "@acme.example")
	for i := range guests + 1 {
		guest := w
		if i > 0 {
			if guest, err = newWorkspace(ctx, h); err != nil {
				return err
			}
			a.member = events.NewID(time.Now())
			_, err := h.AddMember(ctx,
				commands.AddMember{Meta: w.meta(), Member: a.member, User: guest.owner.ID, Email: guest.owner.Name, Role: events.Viewer})
			if err != nil {
				return err
			}
		}
		if i == guests {
			break
		}
		session, err := store.Start(ctx, guest.owner.ID, guest.id, "203.0.113.7", "bench")
		if err != nil {
			return err
		}
		cookie := store.Cookie(session)
		a.cookies = append(a.cookies, cookie.Name+"="+cookie.Value)
	}
	return nil
}

func (a *app) stop() {
	a.ui.stop()
	a.rest.stop()
}

// uiPage compares the page of a hundred members with the requests to the REST service
// that it makes, alone.
func uiPage(ctx context.Context, s *site) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	a, err := s.app(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer a.stop()
	pages, parts := newCallers(a.ui.addr), newCallers(a.rest.addr)
	defer pages.close()
	defer parts.close()
	cookie := "Cookie: " + a.cookies[0]
	page := request("GET /w/"+a.slug+"/members", cookie)
	var asked [][]byte
	for _, path := range []string{"workspace", "members?limit=100", "invitations?limit=100"} {
		asked = append(asked, request("GET /api/v1/"+path, cookie, "X-Svc-Tenant: "+a.slug))
	}
	return compare(ctx,
		func() (float64, error) {
			return measure(ctx, connections, func(_ context.Context, worker int) error { return pages.send(worker, page, http.StatusOK) })
		},
		func() (float64, error) {
			return measure(ctx, connections, func(_ context.Context, worker int) error {
				for _, ask := range asked {
					if err := parts.send(worker, ask, http.StatusOK); err != nil {
						return err
					}
				}
				return nil
			})
		})
}

// uiLive measures how long it takes from the answer to a role change until each of a
// hundred pages, which other people have open, has the row: each has a stream, and asks
// for the page anew as a browser does. The ratio is that of the 99th percentile to half
// a second.
func uiLive(ctx context.Context, s *site) (r result, err error) {
	db, err := s.database(ctx)
	if err != nil {
		return r, err
	}
	defer db.Close()
	a, err := s.app(ctx, db)
	if err != nil {
		return r, err
	}
	defer a.stop()
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 3 * guests}}
	defer client.CloseIdleConnections()
	seen := make(chan string, guests*liveChanges)
	ready, ended := make(chan struct{}, guests), make(chan error, guests)
	for _, cookie := range a.cookies {
		open.Go(func() { ended <- a.look(ctx, client, cookie, ready, seen) })
	}
	for range a.cookies {
		select {
		case <-ready:
		case err := <-ended:
			return r, fmt.Errorf("a page ended: %w", err)
		}
	}
	var p99 []float64
	for range *rounds {
		var took []float64
		for i := range liveChanges {
			role := []string{"Maintainer", "Viewer"}[i%2]
			each, err := a.change(ctx, client, role, seen, ended)
			if err != nil {
				return r, err
			}
			took = append(took, each...)
		}
		p99 = append(p99, percentile(took, 0.99))
		r.Ratios = append(r.Ratios, percentile(took, 0.99)/float64(liveGoal.Milliseconds()))
	}
	r.Note = map[string]any{"pages": guests, "p99_ms": median(p99)}
	return r, ctx.Err()
}

// change changes a role, and returns the milliseconds until each page has it. No page may end meanwhile.
func (a *app) change(
	ctx context.Context, client *http.Client, role string, seen <-chan string, ended <-chan error,
) (took []float64, err error) {
	body := strings.NewReader(`{"role":"` + role + `"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, "http://"+a.rest.addr+"/api/v1/members/"+a.member.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Cookie", a.cookies[0])
	req.Header.Set("X-Svc-Tenant", a.slug)
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("change a role: %s", res.Status)
	}
	from, late := time.Now(), time.After(liveLimit)
	for range a.cookies {
		for shown := ""; shown != role; { // one of the change before may come late
			select {
			case shown = <-seen:
			case err := <-ended:
				return nil, fmt.Errorf("a page ended: %w", err)
			case <-late:
				return nil, fmt.Errorf("%d of %d pages show the change after %s", len(took), len(a.cookies), liveLimit)
			}
		}
		took = append(took, float64(time.Since(from).Microseconds())/1000)
	}
	return took, nil
}

// look follows a workspace as a page does, and tells which role the page shows after each
// event of a member. It tells ready once it follows, and returns an error if a page is refused or its
// stream ends.
func (a *app) look(ctx context.Context, client *http.Client, cookie string, ready chan<- struct{}, seen chan<- string) error {
	stream, err := a.get(ctx, client, cookie, "/live", "")
	if err != nil {
		return err
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "event: ready":
			ready <- struct{}{}
		case strings.HasPrefix(line, "data: ") && strings.Contains(line, `"target":"member"`):
			_, seq, _ := strings.Cut(line, `"seq":`)
			seq, _, _ = strings.Cut(seq, ",")
			page, err := a.get(ctx, client, cookie, "/members", seq)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(page)
			_ = page.Close()
			if err != nil {
				return err
			}
			seen <- a.roleIn(string(text))
		}
	}
	return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}

// roleIn returns the role of the member that a page shows.
func (a *app) roleIn(page string) string {
	_, row, _ := strings.Cut(page, `id="role-`+a.member.String()+`"`)
	_, role, _ := strings.Cut(row, `data-now="`)
	role, _, _ = strings.Cut(role, `"`)
	return role
}

func (a *app) get(ctx context.Context, client *http.Client, cookie, path, position string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.ui.addr+"/w/"+a.slug+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Cookie", cookie)
	if position != "" {
		req.Header.Set("HX-Request", "true")
		req.Header.Set("X-Svc-Min-Position", position)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		_ = res.Body.Close()
		return nil, fmt.Errorf("get %s: %s: %s", path, res.Status, text)
	}
	return res.Body, nil
}
