package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"time"
)

// An owner is an Owner of the demonstration, who asks the REST service for what a person
// may, as a person does.
type owner struct {
	url, tenant string
	http        *http.Client
}

// askLimit is for one answer.
const askLimit = 30 * time.Second

// signInAs signs p in.
func signInAs(ctx context.Context, restURL string, p person) (*owner, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	o := &owner{restURL, p.WorkspaceSlug, &http.Client{Jar: jar, Timeout: askLimit}}
	return o, o.post(ctx, "/api/auth/sign-in/email", map[string]string{"email": p.Email, "password": p.Password}, nil)
}

// post sends in and decodes the answer, which must be that something was done.
func (o *owner) post(ctx context.Context, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Svc-Tenant", o.tenant)
	return answer(o.http, req, out)
}

// answer sends a request and decodes its answer. An error has the code of a refusal.
func answer(client *http.Client, req *http.Request, out any) error {
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)
	}
	if res.StatusCode/100 != 2 {
		r := refusal{Method: req.Method, Path: req.URL.Path, Status: res.StatusCode}
		_ = json.Unmarshal(text, &r) // what is none has no code
		return &r
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: read the answer", req.Method, req.URL.Path) // err may quote a token
	}
	return nil
}

// A refusal is an answer that nothing was done.
type refusal struct {
	Method, Path string          `json:"-"`
	Status       int             `json:"-"`
	Code         string          `json:"code"`
	Details      json.RawMessage `json:"details"`
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s %s: %d %s %s", r.Method, r.Path, r.Status, r.Code, r.Details)
}
