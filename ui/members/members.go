// Package members is the page Members & roles: members, invitations and their roles.
package members

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	confirmedPost := func(path string, do func(*page.Visit) (page.Notice, error), ask func(*page.Visit) (page.Question, error)) page.Route {
		return page.Route{Method: http.MethodPost, Path: "/w/{workspace}/members/" + path, Do: do, Show: show, Back: "members", Ask: ask}
	}
	post := func(path string, do func(*page.Visit) (page.Notice, error)) page.Route {
		return confirmedPost(path, do, nil)
	}
	return []page.Route{
		{Method: http.MethodGet, Path: "/w/{workspace}/members", Show: show},
		{Method: http.MethodGet, Path: "/w/{workspace}/members/export.csv", Send: export},
		confirmedPost("invite", invite, askInvite),
		confirmedPost("{id}/role", changeRole, askAboutMember(askRole)),
		confirmedPost("{id}/approve", changeApproval, askAboutMember(approvalQuestion)),
		confirmedPost("{id}/remove", remove, askAboutMember(removeQuestion)),
		post("{id}/resend", resend),
		confirmedPost("{id}/revoke", revoke, askRevoke),
	}
}

const perPage = 100

// pageData is the content of the page.
type pageData struct {
	Members     client.MemberList
	Invitations client.ListInvitation // only on the first page of members
}

// mostUnfolded is the number of pending invitations up to which they are shown before the members.
const mostUnfolded = 3

func isSearch(v *page.Visit) bool { return v.Query("q") != "" || v.Query("role") != "" }

// splitInvitations returns the invitations of the page that can still be accepted, and the others.
func (d pageData) splitInvitations() (pending, expired []client.Invitation) {
	for _, i := range d.Invitations.Items {
		if i.Status == client.InvitationStatusExpired {
			expired = append(expired, i)
		} else {
			pending = append(pending, i)
		}
	}
	return pending, expired
}

// showsInvitations reports whether invitations are unfolded: few, searched for, paged, or just sent.
func (d pageData) showsInvitations(v *page.Visit) bool {
	pending, _ := d.splitInvitations()
	_, sent := v.Result.(unsentInvites)
	return sent || isSearch(v) || v.Query("invited") != "" || len(pending) <= mostUnfolded
}

// invitationCount says how many invitations there are, by state if the page has all.
func (d pageData) invitationCount() string {
	pending, expired := d.splitInvitations()
	switch {
	case int64(len(pending)+len(expired)) < d.Invitations.Total:
		return kit.Number(d.Invitations.Total)
	case len(expired) == 0:
		return kit.Number(int64(len(pending))) + " pending"
	}
	return kit.Number(int64(len(pending))) + " pending, " + kit.Number(int64(len(expired))) + " expired"
}

func show(v *page.Visit) (page.Page, error) {
	var d pageData
	err := v.Load(func(ctx context.Context) (err error) {
		params := searchParams(v)
		if params.Cursor = client.Optional(v.Query("cursor")); params.Cursor == nil {
			params.Offset = client.Optional(min(v.QueryNumber("from"), maxOffset))
		}
		d.Members, err = client.Decode[client.MemberList](v.API.ListMembers(ctx, params))
		return err
	}, func(ctx context.Context) (err error) {
		switch {
		case v.Query("cursor") != "" || v.QueryNumber("from") > 0:
			return nil
		case isSearch(v):
			d.Invitations, err = searchInvitations(ctx, v)
			return err
		}
		d.Invitations, err = client.Decode[client.ListInvitation](v.API.ListInvitations(ctx, &client.ListInvitationsParams{
			Limit: client.Optional(int64(perPage)), Offset: client.Optional(v.QueryNumber("invited")),
		}))
		return err
	})
	return page.Page{Title: "Members & roles", NavEntry: "members", Main: view(v, d)}, err
}

// maxInvitationsSearched is the number of invitations that a search looks through, newest first.
const maxInvitationsSearched = 1000

// searchInvitations returns the invitations that match the search: by the beginning of the
// address and by role, as for members.
func searchInvitations(ctx context.Context, v *page.Visit) (found client.ListInvitation, err error) {
	q, role := strings.ToLower(v.Query("q")), v.Query("role")
	for offset, total := int64(0), int64(1); offset < min(total, maxInvitationsSearched); {
		list, err := client.Decode[client.ListInvitation](v.API.ListInvitations(ctx, &client.ListInvitationsParams{
			Limit: client.Optional(int64(perPage)), Offset: client.Optional(offset),
		}))
		if err != nil {
			return found, err
		}
		for _, i := range list.Items {
			if strings.HasPrefix(strings.ToLower(i.Email), q) && (role == "" || string(i.Role) == role) {
				found.Items = append(found.Items, i)
			}
		}
		if len(list.Items) == 0 {
			break
		}
		offset, total = offset+int64(len(list.Items)), list.Total
	}
	found.Total = int64(len(found.Items))
	return found, nil
}

// searchParams returns the parameters of the page's search for members.
func searchParams(v *page.Visit) *client.ListMembersParams {
	return &client.ListMembersParams{
		Q: client.Optional(v.Query("q")), Role: client.Optional(client.ListMembersParamsRole(v.Query("role"))),
		Limit: client.Optional(int64(perPage)),
	}
}

// Pages of members go forward by cursor and back by offset; pages of invitations go by offset.

// maxOffset is the highest offset that the service accepts; beyond it there are only cursors.
const maxOffset = 1000

func firstPage(v *page.Visit) string {
	if v.Query("cursor") == "" && v.QueryNumber("from") == 0 {
		return ""
	}
	return v.WithQuery("cursor", "", "from", "")
}

func previousPage(v *page.Visit) string {
	switch from := v.QueryNumber("from") - perPage; {
	case from == -perPage, from > maxOffset:
		return ""
	case from <= 0:
		return firstPage(v)
	default:
		return v.WithQuery("cursor", "", "from", strconv.FormatInt(from, 10))
	}
}

func nextPage(v *page.Visit, d pageData) string {
	if d.Members.NextCursor == nil {
		return ""
	}
	from := v.QueryNumber("from") + int64(len(d.Members.Items))
	return v.WithQuery("cursor", *d.Members.NextCursor, "from", strconv.FormatInt(from, 10), "invited", "")
}

// exportPath returns the address of the CSV file of the members that match the search.
func exportPath(v *page.Visit) string {
	q := url.Values{}
	for _, name := range []string{"q", "role"} {
		if value := v.Query(name); value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return v.Path("members", "export.csv")
	}
	return v.Path("members", "export.csv") + "?" + q.Encode()
}

func previousInvitations(v *page.Visit, d pageData) string {
	switch from := d.Invitations.Offset - perPage; {
	case d.Invitations.Offset == 0:
		return ""
	case from <= 0:
		return v.WithQuery("invited", "")
	default:
		return v.WithQuery("invited", strconv.FormatInt(from, 10))
	}
}

func nextInvitations(v *page.Visit, d pageData) string {
	next := d.Invitations.Offset + int64(len(d.Invitations.Items))
	if next >= d.Invitations.Total {
		return ""
	}
	return v.WithQuery("invited", strconv.FormatInt(next, 10))
}

func refusal(text string) error { return &client.Refused{Status: http.StatusConflict, Message: text} }

func changeRole(v *page.Visit) (page.Notice, error) {
	role := client.MemberChangeBodyRole(v.PostFormValue("role"))
	before, err := client.Decode[client.Member](v.API.GetMember(v.Context(), v.PathValue("id"), nil))
	if err != nil {
		return page.Notice{}, err
	}
	m, err := client.Decode[client.Member](v.API.UpdateMember(v.Context(), v.PathValue("id"), nil, client.MemberChangeBody{Role: &role}))
	if err != nil {
		return page.Notice{}, err
	}
	return roleNotice(v, before, m), nil
}

// roleNotice says what a member's new role is, and whether they may approve loops now or no longer. It offers to give the
// earlier role back, except to oneself, who may no longer change it, and if it was one that cannot be given.
func roleNotice(v *page.Visit, before, m client.Member) page.Notice {
	n := page.Notice{Text: memberName(m) + " is now " + string(m.DisplayRole)}
	switch {
	case m.CanApproveLoops && !before.CanApproveLoops:
		n.Text += ", and may approve loops"
	case !m.CanApproveLoops && before.CanApproveLoops:
		n.Text += ", and may no longer approve loops"
	}
	n.Text += "."
	if before.Role != m.Role && before.Role != client.MemberRoleMember && !m.IsYou {
		n.Undo = &page.Undo{Action: v.Action("members", m.Id, "role"), Values: map[string]string{"role": string(before.Role)}}
	}
	return n
}

func changeApproval(v *page.Visit) (page.Notice, error) {
	may := v.PostFormValue("approve") == "true"
	m, err := client.Decode[client.Member](v.API.UpdateMember(v.Context(), v.PathValue("id"), nil,
		client.MemberChangeBody{CanApproveLoops: &may}))
	text := memberName(m) + " may approve loops."
	if !may {
		text = memberName(m) + " may no longer approve loops."
	}
	undo := &page.Undo{Action: v.Action("members", m.Id, "approve"), Values: map[string]string{"approve": strconv.FormatBool(!may)}}
	return page.Notice{Text: text, Undo: undo}, err
}

func remove(v *page.Visit) (page.Notice, error) {
	err := client.CheckResponse(v.API.RemoveMember(v.Context(), v.PathValue("id"), nil))
	if v.PathValue("id") == v.Workspace.You.MemberId {
		return page.Notice{Text: "You have left " + v.Workspace.Name + ".", To: "/w"}, err
	}
	return page.Notice{Text: "Removed. Their access has ended; their activity stays in the audit log."}, err
}

func resend(v *page.Visit) (page.Notice, error) {
	i, err := client.Decode[client.Invitation](v.API.ResendInvitation(v.Context(), v.PathValue("id"), nil))
	return page.Notice{Text: "Resent to " + i.Email + ". It expires in 48 hours."}, err
}

func revoke(v *page.Visit) (page.Notice, error) {
	err := client.CheckResponse(v.API.RevokeInvitation(v.Context(), v.PathValue("id"), nil))
	return page.Notice{Text: "Invitation revoked."}, err
}

func memberName(m client.Member) string { return kit.NameOrEmail(m.Name, m.Email) }

// activityPath returns the address of a member's actions in the audit log.
func activityPath(v *page.Visit, m client.Member) string {
	return v.Path("audit") + "?q=" + url.QueryEscape("actor:"+m.Email)
}
