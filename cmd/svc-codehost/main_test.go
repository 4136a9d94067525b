package main

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/dev/seed"
)

// TestMain runs svc-codehost itself if a test starts it as a child.
func TestMain(m *testing.M) {
	if os.Getenv("SVC_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const (
	secret   = "a client secret of the test"
	callback = "http://127.0.0.1:4000/api/auth/callback/github"
)

func command(t *testing.T, args []string, environ ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append([]string{
		"SVC_TEST_MAIN=1", "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", "SVC_CODEHOST_ADDR=127.0.0.1:0",
		"SVC_CODEHOST_CLIENT_ID=svc", "SVC_CODEHOST_CLIENT_SECRET=" + secret, "SVC_CODEHOST_CALLBACK=" + callback,
	}, environ...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// fails runs svc-codehost, which must exit with 1, and returns its output.
func fails(t *testing.T, args []string, environ ...string) string {
	t.Helper()
	out, err := command(t, args, environ...).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, string(out))
	require.Equal(t, 1, exit.ExitCode(), string(out))
	require.NotContains(t, string(out), secret)
	return string(out)
}

func TestRunsAndStops(t *testing.T) {
	t.Parallel()
	cmd := command(t, nil)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	out := bufio.NewScanner(pipe)
	var seen strings.Builder
	var line struct{ Msg, Address string }
	for line.Address == "" {
		require.True(t, out.Scan(), "ended before it listened: %s", seen.String())
		seen.WriteString(out.Text())
		require.NoError(t, json.Unmarshal(out.Bytes(), &line), out.Text())
	}
	require.Contains(t, seen.String(), `"SVC_CODEHOST_CLIENT_SECRET":"[redacted]"`)
	_, err = command(t, []string{"-healthcheck"}, "SVC_CODEHOST_ADDR="+line.Address).CombinedOutput()
	require.NoError(t, err)

	// Every demonstration person can be chosen. The login is the first name.
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, p := range seed.People() {
		first, _, _ := strings.Cut(strings.ToLower(p.Name), " ")
		res, err := browser.PostForm("http://"+line.Address+"/login/oauth/authorize?client_id=svc&state=s", url.Values{"login": {first}})
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusFound, res.StatusCode)
		require.True(t, strings.HasPrefix(res.Header.Get("Location"), callback+"?code="))
	}

	// Commit ids of the demonstration are the same on every machine.
	for name, want := range map[string]string{
		"acme/api": "4716ffc2962f9ce73ba66c53291d6072309a12ef", "acme/web": "b7b4c121eb850bfc844c548133e3587932f24401",
		"acme/handbook": "f9435e62733e09a9d6d05ab137b33347da7606e4", "acme/hello": "0f1d3684cce50b3633a4447c8e4d3df6bd77fb91",
		"acme/units": "8e58764b97837d2893d3560a49bb6645f098dcfb", "acme/infra": "72c33337cc0c86a80812b72c56343874d1436e41",
		"globex/site": "fe268cbd20a33404eaa12683461e0636ec965c45",
	} {
		text, err := exec.CommandContext(t.Context(), "git", "ls-remote", "http://"+line.Address+"/"+name+".git", "HEAD").Output()
		require.NoError(t, err)
		require.Equal(t, want+"\tHEAD\n", string(text), name)
	}

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	for out.Scan() {
		seen.WriteString(out.Text())
	}
	require.NoError(t, cmd.Wait())
	require.Contains(t, seen.String(), `"msg":"stopped"`)
	require.NotContains(t, seen.String(), secret)
	require.Contains(t, fails(t, []string{"-healthcheck"}, "SVC_CODEHOST_ADDR="+line.Address), "refused")
}

// A token and what it made are there again after a restart in the same folder.
func TestKeepsItsFolder(t *testing.T) {
	t.Parallel()
	back, err := config.ParseURL(callback)
	require.NoError(t, err)
	cfg := Config{
		Dir: t.TempDir(), ClientID: "svc", ClientSecret: secret, Callback: back, Token: "a token that may write",
		ReadToken: "a token that may read",
	}
	send := func(method, path, token, body string) *httptest.ResponseRecorder {
		handler, err := newHandler(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		r := httptest.NewRequest(method, "http://127.0.0.1/api/v3"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	const issues = "/repos/acme/web/issues"
	require.Equal(t, http.StatusForbidden, send("POST", issues, "a token that may read", `{"title":"Mine"}`).Code)
	require.Equal(t, http.StatusCreated, send("POST", issues, "a token that may write", `{"title":"Mine"}`).Code)
	list := send("GET", issues, "a token that may read", "").Body.String()
	require.Contains(t, list, `"title":"Mine"`)
	require.Contains(t, list, `"title":"Typo on the first page"`)
	require.Contains(t, send("GET", "/user", "a token that may write", "").Body.String(), `"login":"svc-bot"`)
}

func TestListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":0", "0.0.0.0:0"} {
		require.Contains(t, fails(t, nil, "SVC_CODEHOST_ADDR="+addr), "is not a loopback address", addr)
	}
	for _, addr := range []config.Addr{"127.0.0.1:0", "127.1.2.3:0", "localhost:0"} {
		ln, err := listen(t.Context(), addr)
		require.NoError(t, err)
		require.NoError(t, ln.Close())
	}
}

func TestStartupFailuresNameTheVariable(t *testing.T) {
	t.Parallel()
	require.Contains(t, fails(t, nil, "SVC_CODEHOST_CLIENT_ID="), "SVC_CODEHOST_CLIENT_ID is missing")
	require.Contains(t, fails(t, nil, "SVC_CODEHOST_CLIENT_SECRET=short"), "SVC_CODEHOST_CLIENT_SECRET is malformed")
	require.Contains(t, fails(t, nil, "SVC_CODEHOST_CALLBACK=nowhere"), "SVC_CODEHOST_CALLBACK is malformed")
	require.Contains(t, fails(t, nil, "SVC_CODEHOST_CALLBACK=ftp://here/path"), "SVC_CODEHOST_CALLBACK is malformed: want http:// or https://")
	require.Contains(t, fails(t, nil, "SVC_CODEHOST_PEOPLE="+filepath.Join(t.TempDir(), "none")), "SVC_CODEHOST_PEOPLE")
}

func TestPeopleFromFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "people.json")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }

	write(`[{"id":7,"login":"zoe","name":"Zoe","emails":[{"email":"zoe@acme.example","primary":true,"verified":true,"public":true}]}]`)
	list, err := readPeople(file)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, int64(7), list[0].ID)
	require.Equal(t, "zoe@acme.example", list[0].Emails[0].Address)
	require.True(t, list[0].Emails[0].Primary && list[0].Emails[0].Verified && list[0].Emails[0].Public)

	for _, text := range []string{``, `{}`, `[{"mail":"zoe@acme.example"}]`} {
		write(text)
		_, err := readPeople(file)
		require.ErrorContains(t, err, "SVC_CODEHOST_PEOPLE: read "+file)
	}
}
