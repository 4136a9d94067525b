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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/sessions"
)

// A stormRequest is a request that is repeated without end on so many connections at once.
type stormRequest struct {
	Method, Path string
	Header       map[string]string
	Body         string
	AtOnce       int
}

// A stormFunc prepares a database and returns the requests of a storm.
type stormFunc func(context.Context, *pgxpool.Pool) ([]stormRequest, error)

// readStorm reads and streams with the service accounts of one person, in a workspace with runs.
func readStorm(ctx context.Context, db *pgxpool.Pool) (list []stormRequest, err error) {
	log := newLog(db, notifyNobody)
	defer log.Close()
	w, err := newWorkspace(ctx, commands.New(log, time.Now))
	if err != nil {
		return nil, err
	}
	for i := range stormAccounts {
		token := bearer.NewServiceToken()
		_, err := w.handler.CreateServiceAccount(ctx, commands.CreateServiceAccount{
			Meta: w.meta(), Account: events.NewID(time.Now()), Token: token, Name: fmt.Sprint("bot-", i), Scopes: []events.Scope{events.ReadAPI},
		})
		if err != nil {
			return nil, err
		}
		header := map[string]string{"Authorization": "Bearer " + token.Reveal()}
		list = append(list,
			stormRequest{Method: http.MethodGet, Path: "/api/v1/runs?status=active", Header: header, AtOnce: 2},
			stormRequest{Method: http.MethodGet, Path: "/api/v1/events/stream", Header: header, AtOnce: 1})
	}
	return list, fillRuns(ctx, db, w.id, 10_000, 1000)
}

// sessionHeader returns the headers of requests by a signed-in person.
func sessionHeader(ctx context.Context, db *pgxpool.Pool) (map[string]string, error) {
	log := newLog(db, notifyNobody)
	defer log.Close()
	people := &sessions.Store{DB: db, Secret: []byte(secret), Now: time.Now}
	t, err := newTeam(ctx, commands.New(log, time.Now), people)
	if err != nil {
		return nil, err
	}
	return map[string]string{"Cookie": t.cookie.Name + "=" + t.cookie.Value, "Content-Type": "application/json"}, nil
}

// bodyStorm sends bodies of the largest size that is accepted, full of unknown fields.
func bodyStorm(ctx context.Context, db *pgxpool.Pool) ([]stormRequest, error) {
	header, err := sessionHeader(ctx, db)
	var body strings.Builder
	body.WriteString(`{"name":"x"`)
	for i := range 1600 {
		fmt.Fprintf(&body, `,"%d":1`, i)
	}
	body.WriteString("}")
	return []stormRequest{
		{http.MethodPatch, "/api/v1/workspace", header, body.String(), 150},
		{http.MethodPost, "/api/auth/organization/check-slug", header, body.String()[:8000], 60},
	}, err
}

// accountStorm reads under /api/auth.
func accountStorm(ctx context.Context, db *pgxpool.Pool) ([]stormRequest, error) {
	header, err := sessionHeader(ctx, db)
	return []stormRequest{
		{http.MethodGet, "/api/auth/organization/get-full-organization", header, "", 60},
		{http.MethodGet, "/api/auth/organization/list-members", header, "", 60},
	}, err
}

// credentialStorm sends requests with a revoked token and with the cookie of an ended session.
func credentialStorm(ctx context.Context, db *pgxpool.Pool) ([]stormRequest, error) {
	log := newLog(db, notifyNobody)
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
	account, token := events.NewID(time.Now()), bearer.NewServiceToken()
	_, err = h.CreateServiceAccount(ctx, commands.CreateServiceAccount{
		Meta: t.meta(), Account: account, Token: token, Name: "former", Scopes: []events.Scope{events.ReadAPI},
	})
	if err != nil {
		return nil, err
	}
	if _, err := h.RevokeServiceAccount(ctx, commands.RevokeServiceAccount{Meta: t.meta(), Account: account}); err != nil {
		return nil, err
	}
	return []stormRequest{
		{http.MethodGet, "/api/v1/runs?status=active", map[string]string{"Authorization": "Bearer " + token.Reveal()}, "", 100},
		{http.MethodGet, "/api/v1/runs?status=active", map[string]string{"Cookie": t.cookie.Name + "=" + t.cookie.Value}, "", 60},
	}, nil
}

// callbackStorm sends callbacks of sign-ins that nobody began.
func callbackStorm(context.Context, *pgxpool.Pool) ([]stormRequest, error) {
	header := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	return []stormRequest{
		{http.MethodPost, "/api/auth/callback/github", header, "state=" + strings.Repeat("x", 8000), 100},
		{http.MethodGet, "/api/auth/callback/github?state=random", nil, "", 60},
	}, nil
}

// A stormTally counts the answers of a storm. Refusals say when to try again.
type stormTally struct{ Answers, Refusals int64 }

// startStorm starts a process that repeats requests, and returns a function that stops it. The
// process has the lowest priority, because in production it would have its own processors.
func startStorm(ctx context.Context, addr string, wanted []stormRequest) (end func() (stormTally, error), err error) {
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
	var tally bytes.Buffer
	process.Stdout = &tally
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start the storm: %w", err)
	}
	return func() (t stormTally, err error) {
		_ = process.Process.Signal(syscall.SIGTERM)
		if err := process.Wait(); err != nil {
			return t, fmt.Errorf("end the storm: %w", err)
		}
		return t, json.Unmarshal(tally.Bytes(), &t)
	}, nil
}

// sendStorm repeats the requests that it reads from in until ctx is done, and then writes a [stormTally] to out.
func sendStorm(ctx context.Context, addr string, in io.Reader, out io.Writer) error {
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 300},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var list []stormRequest
	if err := json.NewDecoder(in).Decode(&list); err != nil {
		return fmt.Errorf("read the requests of the storm: %w", err)
	}
	var asking sync.WaitGroup
	var answers, refusals atomic.Int64
	for _, one := range list {
		for range one.AtOnce {
			asking.Go(func() {
				for ctx.Err() == nil {
					err := one.send(ctx, client, addr)
					if err == nil || errors.Is(err, errRefused) {
						answers.Add(1)
					}
					if errors.Is(err, errRefused) {
						refusals.Add(1)
					}
					if err != nil {
						sleep(ctx, stormRetryPause)
					}
				}
			})
		}
	}
	asking.Wait()
	return json.NewEncoder(out).Encode(stormTally{answers.Load(), refusals.Load()})
}

var errRefused = errors.New("refused")

// send returns an error if the request is not answered, or is answered with Retry-After.
func (one *stormRequest) send(ctx context.Context, client *http.Client, addr string) error {
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

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
