package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
	"svc/test/githost"
)

// form returns the JSON of the bench's step with an input.
func (b *bench) form(t *testing.T, in any) string {
	t.Helper()
	step := b.step
	var err error
	step.Input, err = json.Marshal(in)
	require.NoError(t, err)
	text, err := json.Marshal(step)
	require.NoError(t, err)
	return string(text)
}

// post sends the parts of a form, name and content by turns, and returns status and body.
func post(t *testing.T, b *bench, kind string, parts ...string) (int, string) {
	t.Helper()
	res := b.sendParts(t, kind, parts...)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

func (b *bench) send(t *testing.T, kind, step string) *http.Response {
	t.Helper()
	return b.sendParts(t, kind, "step", step)
}

func (b *bench) sendParts(t *testing.T, kind string, parts ...string) *http.Response {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for i := 0; i < len(parts); i += 2 {
		require.NoError(t, w.WriteField(parts[i], parts[i+1]))
	}
	require.NoError(t, w.Close())
	req, err := http.NewRequest(http.MethodPost, b.URL.URL().JoinPath("internal/steps", kind).String(), &form)
	require.NoError(t, err)
	req.Header.Set("Content-Type", w.FormDataContentType())
	req.Header.Set("Authorization", "Bearer "+secret.Reveal())
	res, err := b.HTTP.Do(req)
	require.NoError(t, err)
	return res
}

func TestFormOfSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	newer := b.form(t, map[string]any{"branch": "run/1", "base": "main", "newer": []int{1}})
	newer = strings.Replace(newer, `"protocol":0`, `"protocol":9,"attempt":{"new":true}`, 1)
	status, text := post(t, b, "look", "step", newer, "other", "part")
	require.Equal(t, 200, status)
	require.Contains(t, text, `{"progress":"started"}`)
	require.Contains(t, text, `{"result":{"head":"","base":"`)

	for _, c := range []struct {
		kind, part, content string
		status              int
		contains            string
	}{
		{"dance", "step", newer, 404, "unknown_step"},
		{"look", "change", newer, 422, "invalid_step"},
		{"look", "step", "{", 422, "invalid_step"},
		{"look", "step", strings.Replace(newer, `"newer"`, `"pullRequest":"x","newer"`, 1), 200, "invalid_step"},
		{"look", "step", strings.Replace(newer, `"kind":"git"`, `"kind":"svn"`, 1), 200, "host_refused"},
		{"look", "step", strings.Replace(newer, `"repo1"`, `"../repo1"`, 1), 200, `"base":"`},
		{"inspect", "step", strings.Replace(newer, `"repo1"`, `"../repo1"`, 1), 200, "no_repository"},
		{"look", "step", strings.Replace(newer, "run/1", "--upload-pack=x", 1), 200, "may not be used"},
	} {
		status, text := post(t, b, c.kind, c.part, c.content)
		require.Equal(t, c.status, status, text)
		require.Contains(t, text, c.contains)
	}
	req, err := http.NewRequest(http.MethodPost, b.URL.URL().JoinPath("internal/steps/look").String(), strings.NewReader("{}"))
	require.NoError(t, err)
	res, err := b.HTTP.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 401, res.StatusCode)
}

// blocked lets the host wait in each request until release is called, and says when one has come.
func blocked(b *bench) (came chan struct{}, release func()) {
	came, open := make(chan struct{}, 100), make(chan struct{})
	b.host.SetFault(func(_ http.ResponseWriter, q *http.Request) bool {
		came <- struct{}{}
		select {
		case <-open:
		case <-q.Context().Done():
		}
		return false
	})
	return came, func() { close(open) }
}

func TestFullEngineSaysWhenToComeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	came, release := blocked(b)
	done := make(chan error, maxWorkspace)
	for range maxWorkspace {
		go func() {
			_, err := b.tryLook(client.LookInput{Base: "main"})
			done <- err
		}()
	}
	for range maxWorkspace {
		<-came
	}
	b.steps.slots.wait = 0
	_, err := b.tryLook(client.LookInput{Base: "main"})
	require.Equal(t, busySeconds, requireCode(t, err, client.Transient, client.CodeBusy).RetryAfter)
	release()
	for range maxWorkspace {
		require.NoError(t, <-done)
	}
	b.host.SetFault(nil)
	b.look(t, client.LookInput{Base: "main"})
}

func TestSlotsAreWaitedFor(t *testing.T) {
	t.Parallel()
	s := slots{wait: time.Minute}
	var releases []func()
	for range maxWorkspace {
		releases = append(releases, s.take(t.Context(), "a", "b", false))
	}
	got := make(chan func())
	for range 2 {
		go func() { got <- s.take(t.Context(), "a", "b", false) }()
	}
	releases[0]()
	(<-got)()
	(<-got)()
	ctx, cancel := context.WithCancel(t.Context())
	s.take(t.Context(), "a", "b", false)
	cancel()
	require.Nil(t, s.take(ctx, "a", "b", false))
}

func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	var s slots
	var releases []func()
	take := func(workspace, repository string, ofRun bool) bool {
		release := s.take(t.Context(), workspace, repository, ofRun)
		if release != nil {
			releases = append(releases, release)
		}
		return release != nil
	}
	for i := range maxWorkspace {
		require.True(t, take("a", string(rune('0'+i)), true))
	}
	require.False(t, take("a", "other", true))
	for i := range maxSteps - 2*maxWorkspace {
		require.True(t, take(string(rune('b'+i/maxWorkspace)), string(rune('0'+i%maxWorkspace)), true))
	}
	require.False(t, take("z", "0", true), "the rest is for people")
	for range maxRepository {
		require.True(t, take("a", "0", false))
	}
	require.False(t, take("z", "0", false))
	releases[0]()
	require.False(t, take("z", "0", true))
	require.True(t, take("z", "0", false))
	for _, release := range releases[1:] {
		release()
	}
	require.Zero(t, s.all)
	require.Empty(t, s.each)
}

func TestStepEndsWithItsTimeAndItsClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	came, release := blocked(b)
	defer release()
	b.step.Seconds = 1
	_, err := b.tryLook(client.LookInput{Base: "main"})
	requireCode(t, err, client.Transient, client.CodeTimeout)
	<-came

	b.step.Seconds = 600
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := client.Do[client.LookInput, client.LookResult](ctx, b.Client, client.StepLook, b.step, client.LookInput{Base: "main"}, nil, nil)
		done <- err
	}()
	<-came
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Eventually(t, func() bool { return strings.Contains(b.log.String(), "outcome=abandoned") }, 20*time.Second, 10*time.Millisecond)
	b.steps.slots.mu.Lock()
	defer b.steps.slots.mu.Unlock()
	require.Zero(t, b.steps.slots.all)
}

func TestLongStepWritesLines(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.steps.beat = time.Millisecond
	b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	came, release := blocked(b)
	res := b.send(t, "look", b.form(t, client.LookInput{Base: "main"}))
	defer res.Body.Close()
	<-came
	lines := bufio.NewScanner(res.Body)
	for range 4 {
		require.True(t, lines.Scan())
		require.Equal(t, `{"progress":"started"}`, lines.Text())
	}
	release()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NotEmpty(t, text)
}

// What the engine keeps may vanish or be damaged at any time.
func TestLostAndDamagedMirrors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	made := b.committed(t, base, githost.Files{"a": "2\n"})
	in := client.InspectInput{Base: base, Head: made.Head, Branch: "run/1"}
	inspected := func() { t.Helper(); b.inspect(t, in) }
	inspected()
	mirror := filepath.Join(b.steps.mirrors.Folder(), "repo1.git")
	packs, err := filepath.Glob(filepath.Join(mirror, "objects/pack/*.pack"))
	require.NoError(t, err)
	require.NotEmpty(t, packs)
	for name, damage := range map[string]func() error{
		"all gone":   func() error { return os.RemoveAll(b.steps.mirrors.Folder()) },
		"HEAD gone":  func() error { return os.Remove(filepath.Join(mirror, "HEAD")) },
		"HEAD empty": func() error { return os.Truncate(filepath.Join(mirror, "HEAD"), 0) },
		"packs cut": func() error {
			packs, _ := filepath.Glob(filepath.Join(mirror, "objects/pack/*.pack"))
			for _, p := range packs {
				if err := os.Chmod(p, 0o600); err != nil {
					return err
				}
				if err := os.Truncate(p, 40); err != nil {
					return err
				}
			}
			return nil
		},
		"packs gone": func() error { return os.RemoveAll(filepath.Join(mirror, "objects/pack")) },
		"no objects": func() error { return os.RemoveAll(filepath.Join(mirror, "objects")) },
	} {
		require.NoError(t, damage(), name)
		_, err := b.tryInspect(in)
		require.NoError(t, err, name)
	}
}

// A credential is where it has to be and nowhere else.
func TestPlantedTokenIsNowhere(t *testing.T) {
	t.Parallel()
	b, g, made := newForgeBench(t, "github")
	number := g.Add(githost.Entry{Title: "Echo " + githost.Token, Body: "body " + githost.Token})
	read := b.issue(t, client.IssueInput{Number: number, Branch: "main"})
	require.Equal(t, "Echo [credential]", read.Issue.Title, "a host that plays the token back")
	b.propose(t, proposeInput(made.Head, number))
	b.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
		if strings.HasPrefix(q.URL.Path, "/api/") {
			return false
		}
		http.Error(w, "no "+githost.Token, 500)
		return true
	})
	_, err := b.tryLook(client.LookInput{Branch: "run/1", Base: "main"})
	requireCode(t, err, client.Transient, client.CodeHostAway)
	for _, text := range append(g.Comments(number), g.Entry(2).Body, b.log.String()) {
		require.NotContains(t, text, githost.Token)
	}
	require.NoError(t, filepath.WalkDir(b.steps.mirrors.Folder(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		require.NotContains(t, string(text), githost.Token, path)
		return err
	}))
	require.Contains(t, b.log.String(), "kind=propose repository=repo1")
}

func TestFailuresOfGitsTransport(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	change := b.change(t, base, githost.Files{"a": "2\n"})
	for status, c := range map[int]struct {
		class client.Class
		code  string
	}{
		401: {client.Surroundings, client.CodeCredential},
		403: {client.Surroundings, client.CodeCredential},
		404: {client.Surroundings, client.CodeNoRepository},
		301: {client.Surroundings, client.CodeNoRepository},
		429: {client.Transient, client.CodeHostLimited},
		503: {client.Transient, client.CodeHostAway},
	} {
		b.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
			w.Header().Set("Location", b.host.URL+"/elsewhere.git/info/refs?service=git-upload-pack")
			w.WriteHeader(status)
			return true
		})
		_, err := b.tryCommit(commitInput(base), change)
		requireCode(t, err, c.class, c.code)
	}
	b.host.SetFault(nil)
	hook := filepath.Join(b.repo.Dir, "hooks", "update")
	require.NoError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	refuse := func(words string) {
		require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\necho '"+words+"'\nexit 1\n"), 0o755))
	}
	refuse("refusing to allow a token to update workflow .github/x without workflow scope")
	_, err := b.tryCommit(commitInput(base), change)
	f := requireCode(t, err, client.Permanent, client.CodeHostRefused)
	require.Contains(t, f.Message, ".github/x without workflow scope", "R13: the host's words")
	refuse("push rule 7: no e-mail of this domain")
	_, err = b.tryCommit(commitInput(base), change)
	f = requireCode(t, err, client.Permanent, client.CodeHostRefused)
	require.Contains(t, f.Message, "push rule 7")

	b.host.Close()
	_, err = b.tryLook(client.LookInput{Base: "main"})
	requireCode(t, err, client.Transient, client.CodeHostAway)
}

func TestLocalHostsNeedTheSetting(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.steps.network.Close()
	b.steps.network.AllowLocal = false
	_, err := b.tryLook(client.LookInput{Base: "main"})
	requireCode(t, err, client.Surroundings, client.CodeNoRepository)
	for _, address := range []string{"https://127.0.0.1/x.git", "https://localhost/x.git", "https://169.254.169.254/x", "https://[::1]/x",
		"file:///etc", "ssh://h/x", "ext::sh -c id", "https://user:pass@example.org/x", "-x"} {
		b.step.Repository.Clone = address
		_, err := b.tryLook(client.LookInput{Base: "main"})
		requireCode(t, err, client.Surroundings, client.CodeNoRepository)
	}
}
