package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"svc/config"
)

// answers starts an engine that answers every step with text.
func answers(t *testing.T, status int, text string) Client {
	t.Helper()
	return start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
}

func TestRunSendsTheStepAndReadsLines(t *testing.T) {
	var step Step
	var change, path string
	c := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		form, err := r.MultipartReader()
		if err == nil {
			part, _ := form.NextPart()
			err = json.NewDecoder(part).Decode(&step)
			part, _ = form.NextPart()
			text, _ := io.ReadAll(part)
			change = string(text)
		}
		_, _ = io.WriteString(w, "{\"progress\":\"a\"}\n{\"progress\":\"a\"}\n\n{}\n{\"progress\":\"b\",\"newer\":1}\n")
		fmt.Fprintf(w, "{\"result\":{\"head\":\"h%v\"}}\n", err != nil)
	}))
	var said []string
	in := Step{Workspace: "w", Repository: Repository{ID: "r", Credential: Credential{Token: "the token"}}}
	got, err := Do[CommitInput, CommitResult](t.Context(), c, StepCommit, in, CommitInput{Branch: "x"}, strings.NewReader("the change"),
		func(text string) { said = append(said, text) })
	require.NoError(t, err)
	require.Equal(t, "hfalse", got.Head)
	require.Equal(t, []string{"a", "b"}, said)
	require.Equal(t, "/internal/steps/commit", path)
	require.Equal(t, "the change", change)
	require.Equal(t, Protocol, step.Protocol)
	require.Equal(t, config.Secret("the token"), step.Repository.Credential.Token)
	require.Contains(t, string(step.Input), `"branch":"x"`)
}

func TestRunTellsFailuresFromOutages(t *testing.T) {
	run := func(c Client) error {
		_, err := c.Run(t.Context(), StepLook, Step{}, nil, nil)
		return err
	}
	var f *Failure
	failed := `{"error":{"class":"transient","code":"host_away","message":"It is away.","retryAfterSeconds":7}}`
	require.ErrorAs(t, run(answers(t, 200, failed)), &f)
	require.Equal(t, Failure{Transient, CodeHostAway, "It is away.", 7}, *f)
	require.ErrorIs(t, run(answers(t, 401, `{"code":"engine_key_invalid"}`)), ErrKey)
	for name, c := range map[string]Client{
		"unknown":  answers(t, 404, `{"code":"unknown_step"}`),
		"proxy":    answers(t, 502, `<html>`),
		"redirect": answers(t, 302, ``),
		"ended":    answers(t, 200, "{\"progress\":\"a\"}\n"),
		"cut":      answers(t, 200, `{"resu`),
		"no JSON":  answers(t, 200, "hello\n"),
		"long":     answers(t, 200, `{"progress":"`+strings.Repeat("x", maxLineBytes)+"\"}\n"),
		"endless":  answers(t, 200, strings.Repeat(`{"progress":"`+strings.Repeat("x", 1<<20)+"\"}\n", 17)+`{"result":{}}`),
	} {
		err := run(c)
		require.ErrorIs(t, err, ErrUnavailable, name)
		require.NotErrorIs(t, err, ErrKey, name)
	}
	require.ErrorContains(t, run(answers(t, 404, `{"code":"unknown_step"}`)), CodeStep)

	gone := httptest.NewServer(http.NotFoundHandler())
	u, err := config.ParseURL(gone.URL)
	require.NoError(t, err)
	gone.Close()
	require.ErrorIs(t, run(Client{URL: u, Secret: "a shared secret of the test"}), ErrUnavailable)
}

func TestRunEndsWithItsContext(t *testing.T) {
	entered := make(chan struct{})
	c := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{\"progress\":\"a\"}\n")
		_ = http.NewResponseController(w).Flush()
		close(entered)
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, StepLook, Step{}, nil, nil)
		done <- err
	}()
	<-entered
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrUnavailable)
}

func TestRunReportsAChangeThatCannotBeRead(t *testing.T) {
	broken := errors.New("the disk is broken")
	c := answers(t, 200, `{"result":{}}`)
	_, err := c.Run(t.Context(), StepCommit, Step{}, io.MultiReader(strings.NewReader("a"), iotest.ErrReader(broken)), nil)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrUnavailable)
}
