package members

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// manyMembers returns a page of n members for an Owner.
func manyMembers(n int) (*page.Visit, pageData) {
	r := httptest.NewRequest(http.MethodGet, "/w/acme/members", nil)
	r.SetPathValue("workspace", "acme")
	v := &page.Visit{Request: r, Now: time.Now()}
	v.Workspace.Slug, v.Workspace.Name, v.Workspace.You.Role = "acme", "Acme", client.YouRoleOwner
	d := pageData{}
	for i := range n {
		d.Members.Items = append(d.Members.Items, client.Member{
			Id: fmt.Sprintf("019aa0f4-6b1c-7d52-9e83-%012d", i), UserId: fmt.Sprint("u", i), Name: fmt.Sprint("Person ", i),
			Email: fmt.Sprintf("p%d@acme.example", i), Role: "Viewer", DisplayRole: "Viewer", LastActiveAt: &v.Now,
		})
	}
	d.Members.Total = int64(n)
	return v, d
}

func TestPageOfHundredMembersIsSmall(t *testing.T) {
	t.Parallel()
	v, d := manyMembers(100)
	var out bytes.Buffer
	require.NoError(t, view(v, d).Render(t.Context(), &out))
	require.Less(t, out.Len(), 384<<10)
}

// Rows made from a pattern equal rows that are rendered one by one, whatever the members' names.
func TestRowsEqualThoseRenderedAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v, _ := manyMembers(0)
		v.URL.RawQuery = rapid.SampledFrom([]string{"", "q=a&role=Owner"}).Draw(t, "query")
		v.Workspace.You.Role = rapid.SampledFrom([]client.YouRole{"Owner", "Maintainer", "Viewer"}).Draw(t, "viewer")
		v.Workspace.Name = rapid.String().Draw(t, "workspace")
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\uE000", "%EE%80%81", "\x00t1", "<b>\"'&", "{}", ""}))
		var list []client.Member
		for range rapid.IntRange(1, 6).Draw(t, "members") {
			m := client.Member{
				Id: text.Draw(t, "id"), UserId: text.Draw(t, "user"), Name: text.Draw(t, "name"), Email: text.Draw(t, "email"),
				IsYou: rapid.Bool().Draw(t, "you"), CanApproveLoops: rapid.Bool().Draw(t, "approves"),
				ApproveLoopsExplicit: rapid.Bool().Draw(t, "explicit"),
				Role:                 rapid.SampledFrom([]client.MemberRole{"Owner", "Maintainer", "Viewer", "member"}).Draw(t, "role"),
			}
			if m.DisplayRole = client.MemberDisplayRole(m.Role); m.Role == "member" {
				m.DisplayRole = "Viewer"
			}
			if rapid.Bool().Draw(t, "active") {
				m.LastActiveAt = &v.Now
			}
			list = append(list, m)
		}
		var want, got bytes.Buffer
		for _, m := range list {
			var active templ.Component = templ.NopComponent
			if m.LastActiveAt != nil {
				active = kit.Time(*m.LastActiveAt, v.Now)
			}
			require.NoError(t, memberRow(v, m, kit.Avatar(m.UserId, memberName(m)), active).Render(context.Background(), &want))
		}
		require.NoError(t, memberRows(v, list).Render(context.Background(), &got))
		require.Equal(t, want.String(), got.String())
	})
}

func BenchmarkPage(b *testing.B) {
	v, d := manyMembers(100)
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		if err := view(v, d).Render(b.Context(), &out); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(out.Len()))
}
