package rest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"svc/aggregates"
	"svc/events"
	"svc/input"
)

// described returns the OpenAPI document.
func described(t *testing.T) gjson.Result {
	t.Helper()
	s := New(Config{Origin: "http://localhost:4000", Log: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/openapi.json", nil))
	require.True(t, gjson.ValidBytes(w.Body.Bytes()))
	return gjson.ParseBytes(w.Body.Bytes())
}

// sent returns the schema of a field of an operation's body, or of the body.
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

// The description has the limits that the aggregates check.
func TestDescriptionHasLimitsOfRequests(t *testing.T) {
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
	acme.Apply(events.WorkspaceCreated{Name: "Acme", Slug: "acme"}, events.Actor{ID: owner})
	acme.Apply(events.MemberJoined{Member: owner, User: owner, Email: "ada@acme.example", Role: events.Owner}, events.Actor{ID: owner})

	t.Run("forms", func(t *testing.T) {
		require.Equal(t, input.AccountName.Pattern.String(), sent(t, doc, accounts, "name.pattern").String())
		require.Equal(t, input.Slug.Pattern.String(), sent(t, doc, workspace, "slug.pattern").String())
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
		address := func(n int64) string { // with the shortest possible labels
			return (strings.Repeat("a", 64) + "@" + strings.Repeat("a.", int(n)))[:n-1] + "a"
		}
		_, ok := input.Email(address(longest))
		_, longer := input.Email(address(longest + 1))
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
	t.Run("changes need a field", func(t *testing.T) {
		for _, operation := range []string{member, workspace} {
			require.EqualValues(t, 1, sent(t, doc, operation, "").Get("minProperties").Int())
		}
	})
}

// Examples must not contradict themselves or each other.
// The file LICENSE, the README and the description name one license.
func TestLicenseIsThatOfTheRepository(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile("../../" + name)
		require.NoError(t, err)
		return string(text)
	}
	named := described(t).Get("info.license")
	require.True(t, strings.HasPrefix(read("LICENSE"), named.Get("name").String()+
		"\nSPDX-License-Identifier: "+named.Get("identifier").String()+"\n\nCopyright "), named.Raw)
	require.Contains(t, read("README.md"), "["+named.Get("name").String()+"](LICENSE)")
}

func TestExamplesAreConsistent(t *testing.T) {
	doc := described(t)
	answer := func(operation, status string) gjson.Result {
		found := doc.Get("paths." + operation + ".responses." + status + ".content.application/json.example")
		require.True(t, found.Exists(), operation)
		return found
	}
	body := func(operation string) gjson.Result {
		return doc.Get("paths." + operation + ".requestBody.content.application/json.example")
	}

	dashboard := answer("/api/v1/dashboard.get", "200")
	for _, d := range dashboard.Get("system.dependencies").Array() {
		require.True(t, d.Get("status").String() == "up" || d.Get("message").String() != "", d.Raw)
	}
	active := int64(0)
	for _, s := range dashboard.Get("runs.byStage.#.count").Array() {
		active += s.Int()
	}
	require.Equal(t, active, dashboard.Get("runs.active").Int())
	require.Equal(t, dashboardSentence(int(active), int(dashboard.Get("inbox.waiting").Int())), dashboard.Get("head.sentence").String())

	verified := answer("/api/v1/audit/verify.get", "200")
	require.Equal(t, verified.Get("ok").Bool(), verified.Get("firstBad").Type == gjson.Null)
	require.Contains(t, verified.Get("checkpoint").String(), "\n"+verified.Get("size").String()+"\n"+verified.Get("root").String()+"\n")

	for _, r := range answer("/api/v1/audit.get", "200").Get("items").Array() {
		require.Equal(t, r.Get("outcome").String() == "denied", r.Get("code").Exists(), r.Raw)
	}
	for _, a := range answer("/api/v1/inbox.get", "200").Get("items.0.actions").Array() {
		require.Equal(t, a.Get("allowed").Bool(), !a.Get("disabledReason").Exists(), a.Raw)
	}
	require.Equal(t, "merge_approval", answer("/api/v1/inbox/{id}/answer.post", "200").Get("kindId").String())
	for _, operation := range []string{"/api/v1/service-accounts.get", "/api/v1/service-accounts/{id}/revoke.post"} {
		a := answer(operation, "200")
		if a.Get("items").Exists() {
			a = a.Get("items.0")
		}
		require.Equal(t, a.Get("status").String() == "revoked", a.Get("revokedAt").Type != gjson.Null, a.Raw)
	}
	for _, list := range []string{"runs", "members", "invitations", "service-accounts", "inbox"} {
		l := answer("/api/v1/"+list+".get", "200")
		require.Equal(t, l.Get("total").Int(), l.Get("offset").Int()+l.Get("items.#").Int(), list)
	}
	run := answer("/api/v1/runs/{id}.get", "200")
	require.Equal(t, run.Get("changes.items.#").Int(), run.Get("changes.files").Int())
	require.Equal(t, run.Get("run.costCents").Int(), run.Get("resources.costCents").Int())

	// Answers contain the values of their requests.
	for operation, status := range map[string]string{
		"/api/v1/invitations.post": "201", "/api/v1/members/{id}.patch": "200", "/api/v1/workspace.patch": "200",
		"/api/v1/inbox/{id}/answer.post": "200",
	} {
		body(operation).ForEach(func(name, value gjson.Result) bool {
			if shown := answer(operation, status).Get(name.String()); shown.Exists() {
				require.JSONEq(t, value.Raw, shown.Raw, "%s %s", operation, name)
			}
			return true
		})
	}
	queued := body("/api/v1/backlog/queue.post")
	require.False(t, queued.Get("issueNumber").Exists() && queued.Get("body").Exists(), "the combination is refused")
}

// A caller's rights may change during any request, so each operation names that refusal.
func TestDescriptionHasRightsChanged(t *testing.T) {
	doc := described(t)
	for _, operation := range []string{"/api/v1/members.get", "/api/v1/members/{id}.patch", "/api/v1/audit.get"} {
		require.Contains(t, doc.Get("paths."+operation+".responses.403").Raw, `"rights_changed"`, operation)
	}
}

// eachSchema calls visit with every schema in the document.
func eachSchema(t *testing.T, doc gjson.Result, visit func(path string, schema gjson.Result)) {
	t.Helper()
	found := 0
	var walk func(path string, value gjson.Result)
	walk = func(path string, value gjson.Result) {
		if value.Get("type").Exists() {
			found++
			visit(path, value)
		}
		value.ForEach(func(name, inner gjson.Result) bool {
			if inner.IsObject() || inner.IsArray() {
				walk(path+"/"+name.String(), inner)
			}
			return true
		})
	}
	walk("", doc.Get("components.schemas"))
	require.Greater(t, found, 500)
}

// An empty list is [], and null is refused, so clients need not expect a null.
func TestNoListIsDescribedAsNullable(t *testing.T) {
	eachSchema(t, described(t), func(path string, schema gjson.Result) {
		require.False(t, schema.Get("type").IsArray() && schema.Get("items").Exists(), path)
	})
}

// Generators of TypeScript take a property with a default for one that is always there, and so make
// their users send it.
func TestPropertiesHaveNoDefault(t *testing.T) {
	eachSchema(t, described(t), func(path string, schema gjson.Result) {
		require.False(t, schema.Get("default").Exists(), path)
	})
}
