package members

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
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
