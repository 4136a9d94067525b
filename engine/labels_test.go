package engine

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
)

// labelledHost answers what a host says about labels: the account of the credential is svc, zoe may write, and others may not.
// It counts the requests.
func labelledHost(f *forged, at time.Time) (asked map[string]int) {
	labelled := map[string]string{}
	asked = map[string]int{}
	events := map[string]string{"github": "/events", "gitea": "/timeline"}[f.kind]
	var list []map[string]any
	for n, by := range []string{"zoe", "evil[bot]", "svc", "maria"} {
		list = append(list, map[string]any{"number": n + 1, "title": by, "state": "open", "updated_at": at,
			"labels": []any{map[string]any{"name": "svc"}}})
		labelled["/issues/"+string(rune('1'+n))+events] = by
	}
	list = append(list, map[string]any{"number": 9, "title": "a pull request", "pull_request": map[string]any{"url": "x"}, "updated_at": at})
	f.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
		_, path, _ := strings.Cut(q.URL.Path, "/"+f.step.Repository.Name)
		var answer any
		switch by := labelled[path]; {
		case strings.HasSuffix(q.URL.Path, "/user"):
			answer = map[string]any{"login": "SVC"}
		case path == "/issues":
			answer = list
		case by != "":
			event := func(id int, what, body, label string) map[string]any {
				who := map[string]any{"login": by}
				return map[string]any{"id": id, "event": what, "type": "label", "body": body, "actor": who, "user": who, "created_at": at,
					"label": map[string]any{"name": label}}
			}
			if q.URL.Query().Get("page") != "2" {
				answer = []any{event(1, "labeled", "1", "svc"), event(2, "unlabeled", "", "svc"), event(3, "labeled", "1", "svc"),
					event(4, "labeled", "1", "other"), event(5, "unlabeled", "", "svc")}
			} else {
				answer, path = []any{}, "the second page"
			}
		case strings.HasPrefix(path, "/collaborators/"):
			name, _, _ := strings.Cut(strings.TrimPrefix(path, "/collaborators/"), "/")
			if name == "maria" {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			answer = map[string]any{"permission": map[string]string{"zoe": "write", "svc": "admin"}[name]}
		default:
			return false
		}
		asked[path]++
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
		return true
	})
	return asked
}

// R33: that an account labels counts if the host says that it may write, whatever it is called; and R34: not that the service
// itself does.
func TestR33WhoLabelsHasToMayWrite(t *testing.T) {
	atForges(t, whoLabelsHasToMayWrite)
}

func whoLabelsHasToMayWrite(t *testing.T, f *forged) {
	events := map[string]string{"github": "/events", "gitea": "/timeline"}[f.kind]
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	asked := labelledHost(f, at)
	in := client.LabelledInput{Label: "svc"}
	found := do[client.LabelledInput, client.LabelledResult](t, f.bench, client.StepLabelled, in)
	var may []string
	for _, i := range found.Issues {
		require.Equal(t, []any{i.Title, "3", true}, []any{i.By, i.Event, i.At.Equal(at)})
		if i.MayWrite {
			may = append(may, i.By)
		}
	}
	require.Len(t, found.Issues, 4)
	require.Equal(t, []string{"zoe"}, may)

	in.Known = map[int]time.Time{1: at, 2: at, 3: at.Add(-time.Second), 4: at}
	found = do[client.LabelledInput, client.LabelledResult](t, f.bench, client.StepLabelled, in)
	require.Len(t, found.Issues, 1)
	require.Equal(t, []int{1, 2}, []int{asked["/issues/1"+events], asked["/issues/3"+events]}, "what has not changed is not looked at again")
}

// The host has one hook of a repository, whatever its address and secret were before.
func TestHookIsSetUpOnce(t *testing.T) { atForges(t, hookIsSetUpOnce) }

func hookIsSetUpOnce(t *testing.T, f *forged) {
	type hook struct {
		ID     int            `json:"id"`
		Config map[string]any `json:"config"`
	}
	hooks := map[string]*hook{"1": {1, map[string]any{"url": "https://other.example/"}}}
	refused := 0
	f.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
		_, path, found := strings.Cut(q.URL.Path, "/"+f.step.Repository.Name+"/hooks")
		if !found {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		if refused != 0 {
			w.WriteHeader(refused)
			_, _ = io.WriteString(w, `{"message":"Not with the secret s3cret-s3cret."}`)
			return true
		}
		id := strings.TrimPrefix(path, "/")
		var sent hook
		_ = json.NewDecoder(q.Body).Decode(&sent)
		switch q.Method {
		case http.MethodGet:
			list := []*hook{}
			for _, h := range hooks {
				list = append(list, h)
			}
			_ = json.NewEncoder(w).Encode(list)
			return true
		case http.MethodPost:
			sent.ID = 2
			hooks["2"] = &sent
			w.WriteHeader(http.StatusCreated)
		case http.MethodPatch:
			hooks[id].Config = sent.Config
		case http.MethodDelete:
			delete(hooks, id)
			w.WriteHeader(http.StatusNoContent)
			return true
		}
		_, _ = io.WriteString(w, "{}")
		return true
	})
	set := func(in client.HookInput) client.HookResult {
		return do[client.HookInput, client.HookResult](t, f.bench, client.StepHook, in)
	}
	first := client.HookInput{URL: "https://svc.example/hooks/1", Secret: client.Credential{Token: "s3cret-s3cret"}}
	second := client.HookInput{URL: "https://svc.example/hooks/2", Former: first.URL, Secret: client.Credential{Token: "another-s3cret"}}
	for _, in := range []client.HookInput{first, first, second, second} {
		require.Equal(t, client.HookResult{Set: true}, set(in))
		require.Len(t, hooks, 2)
		require.Equal(t, []any{in.URL, in.Secret.Token.Reveal(), "json"},
			[]any{hooks["2"].Config["url"], hooks["2"].Config["secret"], hooks["2"].Config["content_type"]})
	}
	require.Equal(t, client.HookResult{}, set(client.HookInput{URL: second.URL}))
	require.Len(t, hooks, 1)
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity} {
		refused = status
		require.Equal(t, client.HookResult{Why: "Not with the secret [credential]."}, set(first))
	}
}
