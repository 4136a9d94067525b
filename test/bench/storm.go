package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/sessions"
)

// An insisted request is one that a stranger sends again and again, so many times at once.
type insisted struct {
	Method, Path string
	Header       map[string]string
	Body         string
	Times        int
}

// readStorm is of one person's service accounts, in a workspace with runs to read.
func readStorm(ctx context.Context, db *pgxpool.Pool) (list []insisted, err error) {
	log := store.New(db, projections.Inline(), nothing)
	defer log.Close()
	w, err := newWorkspace(ctx, commands.New(log, time.Now))
	if err != nil {
		return nil, err
	}
	for i := range strangers {
		token := commands.NewServiceToken()
		_, err := w.handler.CreateServiceAccount(ctx, commands.CreateServiceAccount{
			Meta: w.meta(), Account: events.NewID(time.Now()), Token: token, Name: fmt.Sprint("bot-", i), Scopes: []events.Scope{events.ReadAPI},
		})
		if err != nil {
			return nil, err
		}
		header := map[string]string{"Authorization": "Bearer " + token.Reveal()}
		list = append(list,
			insisted{Method: http.MethodGet, Path: "/api/v1/runs?status=active", Header: header, Times: 2},
			insisted{Method: http.MethodGet, Path: "/api/v1/events/stream", Header: header, Times: 1})
	}
	return list, fillRuns(ctx, db, w.id, 10_000, 1000)
}

// strangerHeader returns the headers of a person who is signed in.
func strangerHeader(ctx context.Context, db *pgxpool.Pool) (map[string]string, error) {
	log := store.New(db, projections.Inline(), nothing)
	defer log.Close()
	people := &sessions.Store{DB: db, Secret: []byte(secret), Now: time.Now}
	t, err := newTeam(ctx, commands.New(log, time.Now), people)
	if err != nil {
		return nil, err
	}
	return map[string]string{"Cookie": t.cookie.Name + "=" + t.cookie.Value, "Content-Type": "application/json"}, nil
}

// bodyStorm is of bodies as large as they may be, of fields that there are not.
func bodyStorm(ctx context.Context, db *pgxpool.Pool) ([]insisted, error) {
	header, err := strangerHeader(ctx, db)
	var body strings.Builder
	body.WriteString(`{"name":"x"`)
	for i := range 1600 {
		fmt.Fprintf(&body, `,"%d":1`, i)
	}
	body.WriteString("}")
	return []insisted{
		{http.MethodPatch, "/api/v1/workspace", header, body.String(), 150},
		{http.MethodPost, "/api/auth/organization/check-slug", header, body.String()[:8000], 60},
	}, err
}

// accountStorm is of reads under /api/auth.
func accountStorm(ctx context.Context, db *pgxpool.Pool) ([]insisted, error) {
	header, err := strangerHeader(ctx, db)
	return []insisted{
		{http.MethodGet, "/api/auth/organization/get-full-organization", header, "", 60},
		{http.MethodGet, "/api/auth/organization/list-members", header, "", 60},
	}, err
}

// credentialStorm is of requests with a revoked token and with the cookie of an ended session.
func credentialStorm(ctx context.Context, db *pgxpool.Pool) ([]insisted, error) {
	log := store.New(db, projections.Inline(), nothing)
	defer log.Close()
	h := commands.New(log, time.Now)
	people := &sessions.Store{DB: db, Secret: []byte(secret), Now: time.Now, Log: slog.Default()}
	t, err := newTeam(ctx, h, people)
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(ctx, `delete from sessions where user_id = $1`, t.owner.ID); err != nil {
		return nil, fmt.Errorf("end the sessions of %s: %w", t.owner.ID, err)
	}
	account, token := events.NewID(time.Now()), commands.NewServiceToken()
	_, err = h.CreateServiceAccount(ctx, commands.CreateServiceAccount{
		Meta: t.meta(), Account: account, Token: token, Name: "former", Scopes: []events.Scope{events.ReadAPI},
	})
	if err != nil {
		return nil, err
	}
	if _, err := h.RevokeServiceAccount(ctx, commands.RevokeServiceAccount{Meta: t.meta(), Account: account}); err != nil {
		return nil, err
	}
	return []insisted{
		{http.MethodGet, "/api/v1/runs?status=active", map[string]string{"Authorization": "Bearer " + token.Reveal()}, "", 100},
		{http.MethodGet, "/api/v1/runs?status=active", map[string]string{"Cookie": t.cookie.Name + "=" + t.cookie.Value}, "", 60},
	}, nil
}

// callbackStorm is of sign-ins that nobody began.
func callbackStorm(context.Context, *pgxpool.Pool) ([]insisted, error) {
	header := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	return []insisted{
		{http.MethodPost, "/api/auth/callback/github", header, "state=" + strings.Repeat("x", 8000), 100},
		{http.MethodGet, "/api/auth/callback/github?state=random", nil, "", 60},
	}, nil
}

// storm starts a process of strangers, and returns what stops it. It comes after all
// else on this machine: strangers' own processors would be elsewhere.
func storm(ctx context.Context, addr string, wanted []insisted) (end func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, "nice", "-n", "19", program, "-storm", addr)
	process.Stdin = bytes.NewReader(text)
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start the strangers: %w", err)
	}
	return func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
	}, nil
}

// storming insists on what in lists, until it is told to stop.
func storming(ctx context.Context, addr string, in io.Reader) error {
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 300},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var list []insisted
	if err := json.NewDecoder(in).Decode(&list); err != nil {
		return fmt.Errorf("read what to insist on: %w", err)
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, one := range list {
		for range one.Times {
			asking.Go(func() {
				for ctx.Err() == nil {
					if err := one.send(ctx, client, addr); err != nil {
						wait(ctx, strangerGap)
					}
				}
			})
		}
	}
	return nil
}

var errRefused = errors.New("refused")

// send returns an error if it is not answered, or told to come again later.
func (one *insisted) send(ctx context.Context, client *http.Client, addr string) error {
	r, err := http.NewRequestWithContext(ctx, one.Method, "http://"+addr+one.Path, strings.NewReader(one.Body))
	if err != nil {
		return err
	}
	for name, value := range one.Header {
		r.Header.Set(name, value)
	}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.Header.Get("Retry-After") != "" {
		return errRefused
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
