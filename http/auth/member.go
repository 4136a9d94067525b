package auth

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/input"
	"svc/projections"
)

type member struct {
	ID             string            `json:"id"`
	OrganizationID string            `json:"organizationId"`
	UserID         string            `json:"userId"`
	Role           string            `json:"role"`
	CreatedAt      openapi.Timestamp `json:"createdAt"`
	User           *memberUser       `json:"user,omitempty"`
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
		Role: roleName(m.Role), CreatedAt: openapi.FormatTime(m.JoinedAt),
		User: &memberUser{m.User.String(), m.Name, m.Email, orNull(m.AvatarURL)},
	}
}

// withoutUser returns the member without the user's profile.
func (m member) withoutUser() member {
	m.User = nil
	return m
}

func roleName(r events.Role) string { return strings.ToLower(string(r)) }

// A roleList is a role or a list of roles. Members of this service have exactly one.
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

// role returns the only role in the list. It fails for several roles and unknown ones.
func (l roleList) role() (events.Role, error) {
	name := strings.Join(l, ",")
	role, ok := events.ParseRole(name)
	if !ok || !role.Assignable() {
		return "", errRole(name)
	}
	return role, nil
}

// memberPage returns a page of members and the number of members on all pages.
func (s *Server) memberPage(r *request, q projections.MemberQuery) ([]member, int, error) {
	found, total, _, err := s.Members.Page(r.Context(), q)
	list := []member{}
	for _, m := range found {
		list = append(list, newMember(q.Workspace, m))
	}
	return list, total, err
}

// queryInt returns a query parameter as a number of at most limit, or fallback if it is not a number from
// 0 on.
func (r *request) queryInt(name string, fallback, limit int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 0 {
		return fallback
	}
	return min(n, limit)
}

// errMembersOffset refuses a large offset. Paging by a cursor uses an index instead.
var errMembersOffset = errQuery("offset", fmt.Sprintf("Too big: at most %d; to go further, page through /api/v1/members by cursor",
	projections.MaxMembersOffset))

func (s *Server) listMembers(r *request) (any, error) {
	m, err := s.membership(r, selectorFromQuery(r), errNoActive, errYouAreNoMember)
	if err != nil {
		return nil, err
	}
	q := projections.MemberQuery{Workspace: m.Workspace, Limit: r.queryInt("limit", 100, projections.MaxMembersPage),
		Offset: r.queryInt("offset", 0, math.MaxInt32)}
	if q.Offset > projections.MaxMembersOffset {
		return nil, errMembersOffset
	}
	if err := setOrder(&q, r.URL.Query()); err != nil {
		return nil, err
	}
	if err := setFilter(&q, r.URL.Query()); err != nil {
		return nil, err
	}
	list, total, err := s.memberPage(r, q)
	return map[string]any{"members": list, "total": total}, err
}

// setOrder sets the order of q: the one of names, or that in which members joined.
func setOrder(q *projections.MemberQuery, in url.Values) error {
	by, direction := in.Get("sortBy"), in.Get("sortDirection")
	q.ByJoined, q.Descending = by == "createdAt", direction == "desc"
	switch {
	case by != "" && !q.ByJoined:
		return errQuery("sortBy", "Invalid option")
	case direction != "" && direction != "asc" && !q.Descending:
		return errQuery("sortDirection", "Invalid option")
	}
	return nil
}

// setFilter sets the role that q selects. There are no other filters.
func setFilter(q *projections.MemberQuery, in url.Values) (err error) {
	operator := in.Get("filterOperator")
	switch field := in.Get("filterField"); {
	case field == "":
		return nil
	case field != "role":
		return errQuery("filterField", "Invalid option")
	case operator != "" && operator != "eq":
		return errQuery("filterOperator", "Invalid option")
	}
	var ok bool
	if q.Role, ok = events.ParseRole(in.Get("filterValue")); !ok {
		return errQuery("filterValue", "Invalid option")
	}
	return nil
}

func (s *Server) getActiveMember(r *request) (any, error) {
	m, err := s.membership(r, selector{}, errNoActive, errNoMember)
	if err != nil {
		return nil, err
	}
	return s.member(r, m.Workspace, m.Member)
}

func (s *Server) member(r *request, organization, id events.ID) (member, error) {
	found, ok, err := s.Members.Get(r.Context(), organization, id)
	switch {
	case err != nil:
		return member{}, err
	case !ok:
		return member{}, errNoMember
	}
	return newMember(organization, found), nil
}

func (s *Server) getActiveMemberRole(r *request) (any, error) {
	m, err := s.membership(r, selectorFromQuery(r), errNoActive, errYouAreNoMember)
	if err != nil {
		return nil, err
	}
	if name := r.URL.Query().Get("userId"); name != "" && name != r.session.User.String() {
		user, _ := events.ParseID(name) // zero if it is not an id
		other, ok, err := s.Members.Membership(r.Context(), m.Workspace, user)
		if err != nil || !ok {
			return nil, cmp.Or[error](err, errYouAreNoMember)
		}
		m = other
	}
	return map[string]string{"role": roleName(m.Role)}, nil
}

// permissions maps the plugin's resources and actions to rights.
var permissions = map[string]map[string]events.Right{
	"organization": {"update": events.ChangeWorkspace},
	"member":       {"create": events.ManageMembers, "update": events.ManageMembers, "delete": events.ManageMembers},
	"invitation":   {"create": events.ManageMembers, "cancel": events.ManageMembers},
}

func (s *Server) hasPermission(r *request) (any, error) {
	in, err := readBody[struct {
		OrganizationID string              `json:"organizationId"`
		Permissions    map[string][]string `json:"permissions"`
	}](r)
	if err != nil {
		return nil, err
	}
	m, err := s.membership(r, selector{OrganizationID: in.OrganizationID}, errNoActive, errYouAreNoMember)
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

func (s *Server) updateMemberRole(r *request) (any, error) {
	in, err := readBody[struct {
		MemberID       string   `json:"memberId"`
		Role           roleList `json:"role"`
		OrganizationID string   `json:"organizationId"`
	}](r)
	if err != nil {
		return nil, err
	}
	if err := requireField("memberId", in.MemberID); err != nil {
		return nil, err
	}
	if err := requireField("role", strings.Join(in.Role, ",")); err != nil {
		return nil, err
	}
	m, err := s.membership(r, selector{OrganizationID: in.OrganizationID}, errNoActive, errNoMember)
	if err != nil {
		return nil, err
	}
	id, err := events.ParseID(in.MemberID)
	if err != nil {
		return nil, errNoMember
	}
	target, err := s.member(r, m.Workspace, id)
	if err != nil {
		return nil, err
	}
	update := commands.UpdateMember{Meta: r.meta(m.Workspace), Member: id}
	role, unknownRole := in.Role.role()
	if unknownRole == nil {
		update.Role = &role
	}
	done, err := s.Commands.UpdateMember(r.Context(), update) // changes nothing without a role, but checks rights
	switch {
	case err != nil:
		return nil, translate(err, map[string]*fault.Fault{
			aggregates.ErrNoMember.Code: errNoMember, fault.ErrTenantNotFound.Code: errNoMember,
			aggregates.ErrRoleRequired.Code: errUpdateMember, aggregates.ErrMemberForbidden.Code: errUpdateMember,
			aggregates.ErrOwnerRequired.Code: errUpdateMemberOwner, aggregates.ErrLastOwner.Code: errLastOwnerRole,
		})
	case unknownRole != nil:
		return nil, cmp.Or(s.lastOwnerRole(r, m.Workspace, target), unknownRole)
	}
	_ = r.recordPosition(done, nil)
	changed, err := s.member(r, m.Workspace, id)
	return changed.withoutUser(), err
}

// lastOwnerRole returns errLastOwnerRole if target is the only Owner of an organization.
func (s *Server) lastOwnerRole(r *request, organization events.ID, target member) error {
	if target.Role != roleName(events.Owner) {
		return nil
	}
	_, owners, err := s.memberPage(r, projections.MemberQuery{Workspace: organization, Role: events.Owner, Limit: 1})
	if err == nil && owners == 1 {
		err = errLastOwnerRole
	}
	return err
}

func (s *Server) removeMember(r *request) (any, error) {
	in, err := readBody[struct {
		MemberIDOrEmail string `json:"memberIdOrEmail"`
		OrganizationID  string `json:"organizationId"`
	}](r)
	if err != nil {
		return nil, err
	}
	if err := requireField("memberIdOrEmail", in.MemberIDOrEmail); err != nil {
		return nil, err
	}
	m, err := s.membership(r, selector{OrganizationID: in.OrganizationID}, errNoActive, errNoMember)
	if err != nil {
		return nil, err
	}
	id, byID, err := s.findMember(r, m.Workspace, in.MemberIDOrEmail)
	if !byID && id != m.Member && (err == nil || errors.Is(err, errNoMember)) {
		err = cmp.Or(s.removeDenied(r, m), err)
	}
	if err != nil {
		return nil, err
	}
	gone, err := s.remove(r, m.Workspace, id)
	if err != nil {
		return nil, err
	}
	if byID {
		gone = gone.withoutUser()
	}
	return map[string]member{"member": gone}, nil
}

// removeDenied returns the refusal of a member who may not remove whoever has an address, and
// records it. It returns nil if the member may. Others must not learn from the answer, nor from the
// number of records, whether an address, which may be one that no list shows, is a member's.
func (s *Server) removeDenied(r *request, m projections.Membership) error {
	if m.Role.May(events.ManageMembers) {
		return nil
	}
	remove := commands.RemoveMember{Meta: r.meta(m.Workspace)}
	if err := s.Commands.RecordDenial(r.Context(), remove.Meta, remove, aggregates.ErrRoleRequired); err != nil {
		return err
	}
	return errDeleteMember
}

// findMember returns the id of a member by id or by any of their addresses. An id is not looked up.
func (s *Server) findMember(r *request, organization events.ID, name string) (id events.ID, byID bool, err error) {
	if id, err := events.ParseID(name); err == nil {
		return id, true, nil
	}
	address, _ := input.Email(name)
	_, user, err := s.Keys.Holder(r.Context(), events.EmailKey(address))
	if err != nil {
		return id, false, err
	}
	m, ok, err := s.Members.Membership(r.Context(), organization, user)
	if err == nil && !ok {
		err = errNoMember
	}
	return m.Member, false, err
}

// remove removes a member and returns who it was.
func (s *Server) remove(r *request, organization, id events.ID) (member, error) {
	gone, err := s.member(r, organization, id)
	if err != nil {
		return gone, err
	}
	err = r.recordPosition(s.Commands.RemoveMember(r.Context(), commands.RemoveMember{Meta: r.meta(organization), Member: id}))
	if err != nil {
		return gone, translate(err, map[string]*fault.Fault{
			aggregates.ErrNoMember.Code: errNoMember, fault.ErrTenantNotFound.Code: errNoMember,
			aggregates.ErrRoleRequired.Code: errDeleteMember, aggregates.ErrMemberForbidden.Code: errDeleteOwner,
			aggregates.ErrLastOwner.Code: errLastOwnerLeaves,
		})
	}
	return gone, nil
}

func (s *Server) leave(r *request) (any, error) {
	in, err := readBody[struct {
		OrganizationID string `json:"organizationId"`
	}](r)
	if err != nil {
		return nil, err
	}
	if err := requireField("organizationId", in.OrganizationID); err != nil {
		return nil, err
	}
	m, err := s.membership(r, selector{OrganizationID: in.OrganizationID}, errNoMember, errNoMember)
	if err != nil {
		return nil, err
	}
	return s.remove(r, m.Workspace, m.Member)
}
