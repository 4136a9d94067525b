package rest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"svc/aggregates"
	"svc/events"
)

// described returns what the service says of itself.
func described(t *testing.T) gjson.Result {
	t.Helper()
	s := &Server{Home: http.NotFoundHandler(), Auth: http.NotFoundHandler(), Origin: "http://localhost:4000", Log: slog.New(slog.DiscardHandler)}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/openapi.json", nil))
	require.True(t, gjson.ValidBytes(w.Body.Bytes()))
	return gjson.ParseBytes(w.Body.Bytes())
}

// sent returns the schema of a field that an operation takes, or of its body.
func sent(t *testing.T, doc gjson.Result, operation, field string) gjson.Result {
	t.Helper()
	s := doc.Get("paths." + operation + ".requestBody.content.application/json.schema")
	if name, ok := strings.CutPrefix(s.Get("$ref").String(), "#/components/schemas/"); ok {
		s = doc.Get("components.schemas." + name)
	}
	if field != "" {
		s = s.Get("properties." + field)
	}
	require.True(t, s.Exists(), "%s %s", operation, field)
	return s
}

// What is sent is described by the limits that the aggregates hold it against.
func TestWhatIsSentIsDescribedByItsLimits(t *testing.T) {
	doc := described(t)
	const accounts, invitations, member, workspace, answer = "/api/v1/service-accounts.post", "/api/v1/invitations.post",
		"/api/v1/members/{id}.patch", "/api/v1/workspace.patch", "/api/v1/inbox/{id}/answer.post"
	texts := func(s gjson.Result) (list []string) {
		for _, one := range s.Array() {
			list = append(list, one.String())
		}
		return list
	}
	owner := events.NewID(epoch)
	acme := &aggregates.Workspace{}
	acme.Apply(events.WorkspaceCreated{Name: "Acme", Slug: "acme"})
	acme.Apply(events.MemberJoined{Member: owner, User: owner, Email: "ada@acme.example", Role: events.Owner})

	t.Run("forms", func(t *testing.T) {
		require.Equal(t, aggregates.AccountName.Pattern.String(), sent(t, doc, accounts, "name.pattern").String())
		require.Equal(t, aggregates.Slug.Pattern.String(), sent(t, doc, workspace, "slug.pattern").String())
		require.NotContains(t, doc.Raw, "patternDescription")
	})
	t.Run("scopes", func(t *testing.T) {
		known := texts(sent(t, doc, accounts, "scopes.items.enum"))
		require.NotEmpty(t, known)
		create := func(scopes ...events.Scope) error {
			_, err := (&aggregates.ServiceAccount{}).Create(owner, "ci-bot", scopes, aggregates.Token{})
			return err
		}
		for _, s := range []events.Scope{events.ReadAPI, events.SubmitJobs, "", "api.write"} {
			require.Equal(t, create(s) == nil, slices.Contains(known, string(s)), s)
		}
		require.Error(t, create())
		require.EqualValues(t, 1, sent(t, doc, accounts, "scopes.minItems").Int())
	})
	t.Run("roles", func(t *testing.T) {
		for _, known := range [][]string{texts(sent(t, doc, invitations, "role.enum")), texts(sent(t, doc, member, "role.enum"))} {
			for _, r := range []events.Role{events.Owner, events.Maintainer, events.Viewer, events.Legacy, "", "king"} {
				_, err := acme.Invite(owner, events.NewID(epoch), "bob@example.com", r, events.ID{}, epoch)
				require.Equal(t, err == nil, slices.Contains(known, string(r)), r)
			}
		}
	})
	t.Run("addresses", func(t *testing.T) {
		require.Equal(t, "email", sent(t, doc, invitations, "email.format").String())
		longest := sent(t, doc, invitations, "email.maxLength").Int()
		address := func(n int64) string { return strings.Repeat("a", int(n)-len("@example.com")) + "@example.com" }
		_, ok := aggregates.Address(address(longest))
		_, longer := aggregates.Address(address(longest + 1))
		require.True(t, ok && !longer)
	})
	t.Run("names", func(t *testing.T) {
		for n, want := range map[int64]bool{
			sent(t, doc, workspace, "name.minLength").Int(): true, sent(t, doc, workspace, "name.minLength").Int() - 1: false,
			sent(t, doc, workspace, "name.maxLength").Int(): true, sent(t, doc, workspace, "name.maxLength").Int() + 1: false,
		} {
			name := strings.Repeat("ö", int(n))
			_, err := acme.Rename(owner, &name, nil)
			require.Equal(t, want, err == nil, n)
		}
	})
	t.Run("actions", func(t *testing.T) {
		var all []string
		for _, k := range []events.DecisionKind{events.FactReview, events.MergeApproval, events.ProtectedPathOnce} {
			all = append(all, aggregates.Actions(k)...)
		}
		slices.Sort(all)
		require.ElementsMatch(t, slices.Compact(all), texts(sent(t, doc, answer, "action.enum")))
	})
	t.Run("a change says what", func(t *testing.T) {
		for _, operation := range []string{member, workspace} {
			require.EqualValues(t, 1, sent(t, doc, operation, "").Get("minProperties").Int())
		}
	})
}
