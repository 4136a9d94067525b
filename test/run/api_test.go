//go:build linux

package run

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A caller is who sends requests: by a token, or by a cookie.
type caller struct {
	authorization, cookie, tenant string
}

// An answer is what came back.
type answer struct {
	status   int
	position int64 // X-Svc-Position, 0 without
	etag     string
	body     []byte
}

var browser = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 50}}

// send sends a request. Headers come in pairs.
func (c caller) send(method, url string, body any, headers ...string) (a answer, err error) {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return a, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, url, in)
	if err != nil {
		return a, err
	}
	for _, pair := range [][2]string{{"Authorization", c.authorization}, {"Cookie", c.cookie}, {"X-Svc-Tenant", c.tenant}} {
		if pair[1] != "" {
			req.Header.Set(pair[0], pair[1])
		}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := browser.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	a.status, a.etag = res.StatusCode, res.Header.Get("ETag")
	a.position, _ = strconv.ParseInt(res.Header.Get("X-Svc-Position"), 10, 64) // "" is 0
	a.body, err = io.ReadAll(res.Body)
	return a, err
}

// must sends a request that has to be answered with a status.
func (c caller) must(t *testing.T, status int, method, url string, body any, headers ...string) answer {
	t.Helper()
	a, err := c.send(method, url, body, headers...)
	require.NoError(t, err)
	require.Equal(t, status, a.status, "%s %s: %s", method, url, a.body)
	return a
}

// decode reads an answer's body.
func decode[T any](t *testing.T, a answer) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, &v), string(a.body))
	return v
}

// code is that of a refusal.
func (a answer) code() string {
	var refusal struct{ Code string }
	_ = json.Unmarshal(a.body, &refusal) // what is none has no code
	return refusal.Code
}

func byToken(token string) caller { return caller{authorization: "Bearer " + token} }

// signIn signs a person in, in the workspace in which they are listed.
func signIn(t *testing.T, rest string, p person) caller {
	t.Helper()
	body, err := json.Marshal(map[string]string{"email": p.Email, "password": p.Password})
	require.NoError(t, err)
	res, err := browser.Post(rest+"/api/auth/sign-in/email", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	cookie, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
	require.NotEmpty(t, cookie)
	return caller{cookie: cookie, tenant: p.WorkspaceSlug}
}

// created is the answer that shows a token.
type created struct {
	Account struct{ ID, Name, TokenTail, Status string }
	Token   string
}

// createAccount makes a service account that reads.
func createAccount(t *testing.T, owner caller, rest, name string) created {
	t.Helper()
	a := owner.must(t, http.StatusCreated, "POST", rest+"/api/v1/service-accounts",
		map[string]any{"name": name, "scopes": []string{"api.read"}})
	require.Positive(t, a.position)
	return decode[created](t, a)
}

// requireTokenReads proves that a token opens its workspace.
func requireTokenReads(t *testing.T, rest, token string) {
	t.Helper()
	byToken(token).must(t, http.StatusOK, "GET", rest+"/api/v1/runs?status=active", nil)
}
