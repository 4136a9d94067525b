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

// A caller sends requests with a token or with a session cookie.
type caller struct {
	authorization, cookie, tenant string
}

// An answer is an HTTP response.
type answer struct {
	status   int
	position int64 // X-Svc-Position, or 0
	etag     string
	body     []byte
}

var httpClient = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 50}}

// send sends a request. Headers are pairs of name and value.
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
	res, err := httpClient.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	a.status, a.etag = res.StatusCode, res.Header.Get("ETag")
	a.position, _ = strconv.ParseInt(res.Header.Get("X-Svc-Position"), 10, 64) // "" is 0
	a.body, err = io.ReadAll(res.Body)
	return a, err
}

// expect sends a request and requires a status.
func (c caller) expect(t *testing.T, status int, method, url string, body any, headers ...string) answer {
	t.Helper()
	a, err := c.send(method, url, body, headers...)
	require.NoError(t, err)
	require.Equal(t, status, a.status, "%s %s: %s", method, url, a.body)
	return a
}

// decode decodes the body of an answer.
func decode[T any](t *testing.T, a answer) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, &v), string(a.body))
	return v
}

// code returns the code of a refusal, or "" of any other answer.
func (a answer) code() string {
	var refusal struct{ Code string }
	_ = json.Unmarshal(a.body, &refusal) // other bodies have no code
	return refusal.Code
}

func byToken(token string) caller { return caller{authorization: "Bearer " + token} }

// signIn signs a person in and returns a caller in their workspace.
func signIn(t *testing.T, rest string, p person) caller {
	t.Helper()
	body, err := json.Marshal(map[string]string{"email": p.Email, "password": p.Password})
	require.NoError(t, err)
	res, err := httpClient.Post(rest+"/api/auth/sign-in/email", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	cookie, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
	require.NotEmpty(t, cookie)
	return caller{cookie: cookie, tenant: p.WorkspaceSlug}
}

// A createdAccount is the answer that shows a new token.
type createdAccount struct {
	Account struct{ ID, Name, TokenTail, Status string }
	Token   string
}

// createAccount creates a service account with the scope api.read.
func createAccount(t *testing.T, owner caller, rest, name string) createdAccount {
	t.Helper()
	a := owner.expect(t, http.StatusCreated, "POST", rest+"/api/v1/service-accounts",
		map[string]any{"name": name, "scopes": []string{"api.read"}})
	require.Positive(t, a.position)
	return decode[createdAccount](t, a)
}

// requireTokenReads requires that a token can read runs.
func requireTokenReads(t *testing.T, rest, token string) {
	t.Helper()
	byToken(token).expect(t, http.StatusOK, "GET", rest+"/api/v1/runs?status=active", nil)
}
