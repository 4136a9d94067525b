package auth

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/input"
	"svc/projections"
)

type member struct {
	ID             string      `json:"id"`
	OrganizationID string      `json:"organizationId"`
	UserID         string      `json:"userId"`
	Role           string      `json:"role"`
	CreatedAt      string      `json:"createdAt"`
	User           *memberUser `json:"user,omitempty"`
}

type memberUser struct {
	ID    string  `json:"id"`
	Name  string  `json:"name"`
	Email string  `json:"email"`
	Image *string `json:"image"`
}

func newMember(organization events.ID, m projections.Member) member {
	return member{
		ID: m.ID.String(), OrganizationID: organization.String(), UserID: m.User.String(),
		Role: roleName(m.Role), CreatedAt: at(m.JoinedAt),
		User: &memberUser{m.User.String(), m.Name, m.Email, orNull(m.AvatarURL)},
	}
}

// alone leaves out the person.
func (m member) alone() member {
	m.User = nil
	return m
}

func roleName(r events.Role) string { return strings.ToLower(string(r)) }

// A roleList is a role, or a list of roles, of which a member here has one.
type roleList []string

// UnmarshalJSON reads a string or a list of strings.
func (l *roleList) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*l = roleList{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// role returns the one role that was named.
func (l roleList) role() (events.Role, error) {
	name := strings.Join(l, ",")
	role, ok := events.ParseRole(name)
	if !ok || role == events.Legacy {
		return "", errRole(name)
	}
	return role, nil
}

// memberPage returns members, and how many there are on all pages.
func (s *Server) memberPage(v *visit, q projections.MemberQuery) ([]member, int, error) {
	found, total, _, err := s.members.Page(v.Context(), q)
	list := []member{}
	for _, m := range found {
		list = append(list, newMember(q.Workspace, m))
	}
	return list, total, err
}

// number reads a number of the query that is between 0 and most.
func (v *visit) number(name string, otherwise, most int) int {
	n, err := strconv.Atoi(v.URL.Query().Get(name))
	if err != nil || n < 0 {
		return otherwise
	}
	return min(n, most)
}

// errMembersOffset tells how to go on. Who is behind a time or an id is found in an
// index.
var errMembersOffset = errQuery("offset", fmt.Sprintf("Too big: at most %d; to go on, sort by createdAt or id and filter by what is greater than the last one",
	projections.MaxMembersOffset))

func (s *Server) listMembers(v *visit) (any, error) {
	m, err := s.membership(v, whichOf(v), errNoActive, errYouAreNoMember)
	if err != nil {
		return nil, err
	}
	q := projections.MemberQuery{Workspace: m.Workspace, Limit: v.number("limit", 100, projections.MaxMembersPage),
		Offset: v.number("offset", 0, math.MaxInt32)}
	if q.Offset > projections.MaxMembersOffset {
		return nil, errMembersOffset
	}
	if err := v.arrange(&q); err != nil {
		return nil, err
	}
	list, total, err := s.memberPage(v, q)
	return map[string]any{"members": list, "total": total}, err
}

func (s *Server) getActiveMember(v *visit) (any, error) {
	m, err := s.membership(v, which{}, errNoActive, errNoMember)
	if err != nil {
		return nil, err
	}
	return s.member(v, m.Workspace, m.Member)
}

func (s *Server) member(v *visit, organization, id events.ID) (member, error) {
	found, ok, err := s.members.Get(v.Context(), organization, id)
	switch {
	case err != nil:
		return member{}, err
	case !ok:
		return member{}, errNoMember
	}
	return newMember(organization, found), nil
}

func (s *Server) getActiveMemberRole(v *visit) (any, error) {
	m, err := s.membership(v, whichOf(v), errNoActive, errYouAreNoMember)
	if err != nil {
		return nil, err
	}
	if name := v.URL.Query().Get("userId"); name != "" && name != v.session.User.String() {
		user, _ := events.ParseID(name) // what is no id is nobody's
		other, ok, err := s.members.Membership(v.Context(), m.Workspace, user)
		if err != nil || !ok {
			return nil, orElse(err, errYouAreNoMember)
		}
		m = other
	}
	return map[string]string{"role": roleName(m.Role)}, nil
}

// permissions are rights in the plugin's words.
var permissions = map[string]map[string]events.Right{
	"organization": {"update": events.ChangeWorkspace},
	"member":       {"create": events.ManageMembers, "update": events.ManageMembers, "delete": events.ManageMembers},
	"invitation":   {"create": events.ManageMembers, "cancel": events.ManageMembers},
}

func (s *Server) hasPermission(v *visit) (any, error) {
	in, err := read[struct {
		OrganizationID string              `json:"organizationId"`
		Permissions    map[string][]string `json:"permissions"`
	}](v)
	if err != nil {
		return nil, err
	}
	m, err := s.membership(v, which{OrganizationID: in.OrganizationID}, errNoActive, errYouAreNoMember)
	if err != nil {
		return nil, err
	}
	may := len(in.Permissions) > 0
	for resource, actions := range in.Permissions {
		for _, action := range actions {
			may = may && m.Role.May(permissions[resource][action])
		}
	}
	return map[string]any{"error": nil, "success": may}, nil
}

func (s *Server) updateMemberRole(v *visit) (any, error) {
	in, err := read[struct {
		MemberID       string   `json:"memberId"`
		Role           roleList `json:"role"`
		OrganizationID string   `json:"organizationId"`
	}](v)
	if err != nil {
		return nil, err
	}
	if err := need("memberId", in.MemberID); err != nil {
		return nil, err
	}
	if err := need("role", strings.Join(in.Role, ",")); err != nil {
		return nil, err
	}
	m, err := s.membership(v, which{OrganizationID: in.OrganizationID}, errNoActive, errNoMember)
	if err != nil {
		return nil, err
	}
	role, err := in.Role.role()
	if err != nil {
		return nil, err
	}
	id, err := events.ParseID(in.MemberID)
	if err != nil {
		return nil, errNoMember
	}
	err = v.did(s.commands.UpdateMember(v.Context(), commands.UpdateMember{Meta: v.meta(m.Workspace), Member: id, Role: &role}))
	if err != nil {
		return nil, translated(err, map[string]*fault.Fault{
			aggregates.ErrNoMember.Code: errNoMember, fault.ErrTenantNotFound.Code: errNoMember,
			aggregates.ErrRoleRequired.Code: errUpdateMember, aggregates.ErrMemberForbidden.Code: errUpdateMember,
			aggregates.ErrOwnerRequired.Code: errUpdateMemberOwner, aggregates.ErrLastOwner.Code: errLastOwnerRole,
		})
	}
	changed, err := s.member(v, m.Workspace, id)
	return changed.alone(), err
}

func (s *Server) removeMember(v *visit) (any, error) {
	in, err := read[struct {
		MemberIDOrEmail string `json:"memberIdOrEmail"`
		OrganizationID  string `json:"organizationId"`
	}](v)
	if err != nil {
		return nil, err
	}
	if err := need("memberIdOrEmail", in.MemberIDOrEmail); err != nil {
		return nil, err
	}
	m, err := s.membership(v, which{OrganizationID: in.OrganizationID}, errNoActive, errNoMember)
	if err != nil {
		return nil, err
	}
	id, byID, err := s.memberNamed(v, m.Workspace, in.MemberIDOrEmail)
	if err != nil {
		return nil, err
	}
	gone, err := s.remove(v, m.Workspace, id)
	if err != nil {
		return nil, err
	}
	if byID {
		gone = gone.alone()
	}
	return map[string]member{"member": gone}, nil
}

// memberNamed finds a member by id or by any address of theirs.
func (s *Server) memberNamed(v *visit, organization events.ID, name string) (id events.ID, byID bool, err error) {
	if id, err := events.ParseID(name); err == nil {
		return id, true, nil
	}
	address, _ := input.Email(name)
	_, user, err := s.keys.Holder(v.Context(), events.EmailKey(address))
	if err != nil {
		return id, false, err
	}
	m, ok, err := s.members.Membership(v.Context(), organization, user)
	if err == nil && !ok {
		err = errNoMember
	}
	return m.Member, false, err
}

// remove takes a member out and returns who that was.
func (s *Server) remove(v *visit, organization, id events.ID) (member, error) {
	gone, err := s.member(v, organization, id)
	if err != nil {
		return gone, err
	}
	err = v.did(s.commands.RemoveMember(v.Context(), commands.RemoveMember{Meta: v.meta(organization), Member: id}))
	if err != nil {
		return gone, translated(err, map[string]*fault.Fault{
			aggregates.ErrNoMember.Code: errNoMember, fault.ErrTenantNotFound.Code: errNoMember,
			aggregates.ErrRoleRequired.Code: errDeleteMember, aggregates.ErrMemberForbidden.Code: errDeleteOwner,
			aggregates.ErrLastOwner.Code: errLastOwnerLeaves,
		})
	}
	return gone, nil
}

func (s *Server) leave(v *visit) (any, error) {
	in, err := read[struct {
		OrganizationID string `json:"organizationId"`
	}](v)
	if err != nil {
		return nil, err
	}
	if err := need("organizationId", in.OrganizationID); err != nil {
		return nil, err
	}
	m, err := s.membership(v, which{OrganizationID: in.OrganizationID}, errNoMember, errNoMember)
	if err != nil {
		return nil, err
	}
	return s.remove(v, m.Workspace, m.Member)
}
