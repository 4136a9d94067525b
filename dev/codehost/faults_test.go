package codehost

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResponseFaults(t *testing.T) {
	t.Parallel()
	s := start(t)
	token := s.token(t, "ada")

	s.faults.Set("/user", Fault{Status: http.StatusInternalServerError})
	require.Equal(t, http.StatusInternalServerError, s.get(t, "/user", token).status)
	require.Equal(t, http.StatusOK, s.get(t, "/api/v3/user", token).status, "other paths are as they were")

	s.faults.Set("/user", Fault{Body: "<html>"})
	res := s.get(t, "/user", token)
	require.Equal(t, http.StatusOK, res.status)
	require.Equal(t, "<html>", res.body)

	s.faults.Set("/user", Fault{Body: "{", Status: http.StatusBadGateway})
	require.Equal(t, http.StatusBadGateway, s.get(t, "/user", token).status)

	s.faults.Set("/user", Fault{Delay: 20 * time.Millisecond})
	begin := time.Now()
	require.Equal(t, http.StatusOK, s.get(t, "/user", token).status)
	require.GreaterOrEqual(t, time.Since(begin), 20*time.Millisecond)

	s.faults.Set("/user", Fault{})
	require.Contains(t, s.get(t, "/user", token).body, `"login":"ada"`)
}

func TestAddressFaults(t *testing.T) {
	t.Parallel()
	s := start(t)
	token := s.token(t, "ada")
	for _, path := range []string{"/user/emails", "/api/v3/user/emails", "/api/v1/user/emails"} {
		s.faults.Set(path, Fault{Unverified: true})
		res := s.get(t, path, token)
		require.Equal(t, 3, strings.Count(res.body, `"verified":false`))
		s.faults.Set(path, Fault{NoEmails: true})
		require.JSONEq(t, `[]`, s.get(t, path, token).body)
		s.faults.Set(path, Fault{})
		require.Equal(t, 2, strings.Count(s.get(t, path, token).body, `"verified":true`))
	}
}

func TestHeldPathAnswersAfterRelease(t *testing.T) {
	t.Parallel()
	s := start(t)
	code, release := s.code(t, "ada"), make(chan struct{})
	<-s.logs
	const path = "/login/oauth/access_token"
	s.faults.Set(path, Fault{Hold: release})

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := s.try(ctx, "POST", path, "code="+code)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	select {
	case line := <-s.logs:
		require.Contains(t, line, path, "the host sees that the caller went")
	case <-time.After(time.Minute):
		require.Fail(t, "the host did not see that the caller went")
	}

	got := make(chan map[string]string)
	go func() {
		defer close(got)
		got <- s.exchange(t, code)
	}()
	close(release)
	require.NotEmpty(t, (<-got)["access_token"], "with the body that it was sent")
}
