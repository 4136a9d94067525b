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

// An owner calls the REST service as an Owner of the demonstration.
type owner struct {
	url, tenant string
	http        *http.Client
}

// callTimeout is the timeout of one call.
const callTimeout = 30 * time.Second

// signInAs signs in as p.
func signInAs(ctx context.Context, restURL string, p person) (*owner, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	o := &owner{restURL, p.WorkspaceSlug, &http.Client{Jar: jar, Timeout: callTimeout}}
	return o, o.post(ctx, "/api/auth/sign-in/email", map[string]string{"email": p.Email, "password": p.Password}, nil)
}

// post sends in as JSON and decodes the answer into out. Any status other than 2xx is an error.
func (o *owner) post(ctx context.Context, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return o.send(ctx, http.MethodPost, path, bytes.NewReader(text), out)
}

// get decodes an answer into out, as post does.
func (o *owner) get(ctx context.Context, path string, out any) error {
	return o.send(ctx, http.MethodGet, path, http.NoBody, out)
}

func (o *owner) send(ctx context.Context, method, path string, body io.Reader, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, o.url+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Svc-Tenant", o.tenant)
	return call(o.http, req, out)
}

// call sends a request and decodes the answer. For other statuses than 2xx it returns a
// [apiError].
func call(client *http.Client, req *http.Request, out any) error {
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
		r := apiError{Method: req.Method, Path: req.URL.Path, Status: res.StatusCode}
		_ = json.Unmarshal(text, &r) // other bodies have no code
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

// An apiError is an error answer of a service.
type apiError struct {
	Method, Path string          `json:"-"`
	Status       int             `json:"-"`
	Code         string          `json:"code"`
	Details      json.RawMessage `json:"details"`
}

func (r *apiError) Error() string {
	return fmt.Sprintf("%s %s: %d %s %s", r.Method, r.Path, r.Status, r.Code, r.Details)
}
