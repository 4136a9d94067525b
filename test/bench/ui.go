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
	browsers    = 100                    // open pages, each of another member
	liveLimit   = 10 * time.Second       // for a page to show a change
	liveChanges = 20                     // in a round
	liveGoal    = 500 * time.Millisecond // p99
)

// A webApp is svc-ui in front of svc-rest, with a workspace of a hundred signed-in people.
type webApp struct {
	rest, ui *serviceProcess
	slug     string
	member   events.ID // whose role is changed; has no page, as each change ends a member's own streams
	cookies  []string  // of the Owner first, then of members
}

// startWebApp creates the people and starts svc-rest and svc-ui.
func (s *suite) startWebApp(ctx context.Context, db *pgxpool.Pool) (*webApp, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	a := &webApp{}
	if err := a.addPeople(ctx, db); err != nil {
		return nil, err
	}
	if a.rest, err = s.startRest(ctx, db.Config().ConnString(), "AUTH_URL=http://"+addr); err != nil {
		return nil, err
	}
	command := exec.Command(filepath.Join("bin", "svc-ui"))
	command.Env = append(os.Environ(), "SVC_UI_ADDR="+addr, "SVC_REST_URL=http://"+a.rest.addr, "AUTH_URL=http://"+addr, "SVC_LOG_LEVEL=warn")
	if a.ui, err = startProcess(ctx, command, addr); err != nil {
		a.rest.stop()
		return nil, err
	}
	return a, nil
}

// addPeople creates a workspace, adds its members and signs in all who have a page.
func (a *webApp) addPeople(ctx context.Context, db *pgxpool.Pool) error {
	log := newLog(db, notifyNobody)
	defer log.Close()
	h := commands.New(log, time.Now)
	store := &sessions.Store{DB: db, Secret: []byte(secret), Now: time.Now, Log: slog.Default()}
	w, err := newWorkspace(ctx, h)
	if err != nil {
		return err
	}
	a.slug = strings.TrimSuffix(w.owner.Name, "@acme.example")
	for i := range browsers + 1 {
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
		if i == browsers {
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

func (a *webApp) stop() {
	a.ui.stop()
	a.rest.stop()
}

// uiPage compares the page of a hundred members with its requests to the REST service alone.
func uiPage(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	a, err := s.startWebApp(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer a.stop()
	pages, parts := newCallers(a.ui.addr), newCallers(a.rest.addr)
	defer pages.close()
	defer parts.close()
	cookie := "Cookie: " + a.cookies[0]
	page := rawRequest("GET /w/"+a.slug+"/members", cookie)
	var asked [][]byte
	for _, path := range []string{"workspace", "members?limit=100", "invitations?limit=100"} {
		asked = append(asked, rawRequest("GET /api/v1/"+path, cookie, "X-Svc-Tenant: "+a.slug))
	}
	return compare(ctx,
		func() (work, error) {
			return measure(ctx, connections, func(_ context.Context, worker int) error { return pages.send(worker, page, http.StatusOK) })
		},
		func() (work, error) {
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

// uiLive measures the time from the answer to a role change until each of a hundred open pages
// has the new row. Each page follows a stream and fetches itself again, as a browser does. The
// ratio is that of the 99th percentile to half a second.
func uiLive(ctx context.Context, s *suite) (r result, err error) {
	db, err := s.database(ctx)
	if err != nil {
		return r, err
	}
	defer db.Close()
	a, err := s.startWebApp(ctx, db)
	if err != nil {
		return r, err
	}
	defer a.stop()
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 3 * browsers}}
	defer client.CloseIdleConnections()
	seen := make(chan string, browsers*liveChanges)
	ready, ended := make(chan struct{}, browsers), make(chan error, browsers)
	for _, cookie := range a.cookies {
		open.Go(func() { ended <- a.followPage(ctx, client, cookie, ready, seen) })
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
			each, err := a.changeRole(ctx, client, role, seen, ended)
			if err != nil {
				return r, err
			}
			took = append(took, each...)
		}
		p99 = append(p99, percentile(took, 0.99))
		r.Ratios = append(r.Ratios, percentile(took, 0.99)/float64(liveGoal.Milliseconds()))
	}
	r.Note = map[string]any{"pages": browsers, "p99_ms": median(p99)}
	return r, ctx.Err()
}

// changeRole changes a role and returns the milliseconds until each page shows it. It fails if a page ends meanwhile.
func (a *webApp) changeRole(
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
		for shown := ""; shown != role; { // skips late pages of the change before
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

// followPage follows a workspace as an open page does. It signals ready once its stream is open, and after each
// event of a member sends the role that the page shows. It returns an error if a page is refused or the stream ends.
func (a *webApp) followPage(ctx context.Context, client *http.Client, cookie string, ready chan<- struct{}, seen chan<- string) error {
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
			seen <- a.shownRole(string(text))
		}
	}
	return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}

// shownRole returns the role of the member on a page.
func (a *webApp) shownRole(page string) string {
	_, row, _ := strings.Cut(page, `id="role-`+a.member.String()+`"`)
	_, role, _ := strings.Cut(row, `data-now="`)
	role, _, _ = strings.Cut(role, `"`)
	return role
}

// get requests a page, or with a position the parts that htmx fetches once the views have reached it.
func (a *webApp) get(ctx context.Context, client *http.Client, cookie, path, position string) (io.ReadCloser, error) {
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
