package seed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/atomicfile"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
)

// A Demo is what one needs to know to use the demonstration.
type Demo struct {
	People          []Person  `json:"people"` // one for each membership
	ServiceAccounts []Account `json:"serviceAccounts"`

	members map[[2]events.ID]events.ID // by workspace and user
}

// A Person is a member of a workspace.
type Person struct {
	Name          string      `json:"name"`
	Email         string      `json:"email"`
	Password      string      `json:"password"`
	Role          events.Role `json:"role"`
	WorkspaceID   events.ID   `json:"workspaceId"`
	WorkspaceSlug string      `json:"workspaceSlug"`
}

// An Account is a service account with its token.
type Account struct {
	Name          string         `json:"name"`
	Token         string         `json:"token"`
	Scopes        []events.Scope `json:"scopes"`
	WorkspaceID   events.ID      `json:"workspaceId"`
	WorkspaceSlug string         `json:"workspaceSlug"`
}

func (d *Demo) add(p demoWorkspace, c demoPerson, r events.Role) {
	if d.members == nil {
		d.members = map[[2]events.ID]events.ID{}
	}
	d.People = append(d.People, Person{c.name, c.email, Password, r, p.id, p.slug})
}

func (d *Demo) setRole(p demoWorkspace, c demoPerson, r events.Role) {
	for i := range d.People {
		if d.People[i].Email == c.email && d.People[i].WorkspaceID == p.id {
			d.People[i].Role = r
		}
	}
}

// write stores d in a file that only its owner can read.
func (d *Demo) write(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("encode demonstration: %w", err)
	}
	return atomicfile.Write(file, append(text, '\n'), 0o600)
}

// accounts creates the service accounts of the demonstration.
func (s *seed) accounts(p demoWorkspace) error {
	for _, a := range []struct {
		name   string
		scopes []events.Scope
	}{
		{builder, []events.Scope{events.ReadAPI, events.SubmitJobs}},
		{"reader", []events.Scope{events.ReadAPI}},
		{"farmer", []events.Scope{events.SubmitJobs}},
		{retired, []events.Scope{events.ReadAPI}},
	} {
		token := bearer.NewServiceToken()
		account := commands.CreateServiceAccount{Meta: p.by(p.owner), Account: s.id(), Token: token, Name: a.name, Scopes: a.scopes}
		if _, err := s.commands.CreateServiceAccount(s.ctx, account); err != nil {
			return fmt.Errorf("create service account %s: %w", a.name, err)
		}
		switch a.name {
		case builder:
			s.builder = account.Account
		case retired:
			s.retired = account.Account
			continue
		}
		s.demo.ServiceAccounts = append(s.demo.ServiceAccounts, Account{a.name, token.Reveal(), a.scopes, p.id, p.slug})
		s.advance(time.Minute)
	}
	return nil
}

const (
	builder = "ci-bot"  // the service account that was used
	retired = "old-bot" // the service account that is revoked
)

// markComplete revokes that account. It is the last command and marks the demonstration as complete.
func (s *seed) markComplete(p demoWorkspace) error {
	if _, err := s.commands.RevokeServiceAccount(s.ctx,
		commands.RevokeServiceAccount{Meta: p.by(p.owner), Account: s.retired}); err != nil {
		return fmt.Errorf("revoke service account %s: %w", retired, err)
	}
	return nil
}

// restoreFile recreates a file that is missing or of another database. The tokens are unknown, so the
// Owner rotates them.
func (s *seed) restoreFile(file string) error {
	if file == "" {
		return nil
	}
	if mine, err := s.isOfDatabase(file); err != nil || mine {
		return err
	}
	s.at = s.now
	if err := s.loadPeople(); err != nil {
		return err
	}
	if err := s.rotate(); err != nil {
		return err
	}
	return s.demo.write(file)
}

// isOfDatabase reports whether a file exists and has the people of this database.
func (s *seed) isOfDatabase(file string) (mine bool, err error) {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	var d Demo
	if err := json.Unmarshal(text, &d); err != nil {
		return false, fmt.Errorf("decode %s: %w", file, err)
	}
	if len(d.People) == 0 {
		return false, nil
	}
	err = s.db.QueryRow(s.ctx, `select exists (select from logs where workspace_id = $1)`, d.People[0].WorkspaceID).Scan(&mine)
	if err != nil {
		return false, fmt.Errorf("look up the workspace of %s: %w", file, err)
	}
	return mine, nil
}

// loadPeople reads the demonstration people and their present memberships.
func (s *seed) loadPeople() error {
	rows, _ := s.db.Query(s.ctx, `
		select u.name, u.email, $1, m.role, m.workspace_id, w.slug
		from members m
		join users u on u.user_id = m.user_id
		join workspaces w on w.workspace_id = m.workspace_id
		join passwords p on p.user_id = m.user_id
		where w.slug in ('acme', 'globex') order by m.joined_at, m.member_id`, Password)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Person])
	if err != nil {
		return fmt.Errorf("recall people: %w", err)
	}
	s.demo.People = list
	return nil
}

// rotate gives a new token to each service account of the demonstration that still exists, and
// leaves others alone.
func (s *seed) rotate() error {
	type row struct {
		Workspace, Account, Owner events.ID
		OwnerEmail, Name, Slug    string
		Scopes                    []events.Scope
	}
	rows, _ := s.db.Query(s.ctx, `
		select a.workspace_id, a.account_id, o.user_id, o.email, a.name, w.slug, a.scopes
		from service_accounts a
		join workspaces w on w.workspace_id = a.workspace_id
		cross join lateral (
			select user_id, email from members m
			where m.workspace_id = a.workspace_id and role = 'Owner' order by joined_at limit 1
		) o
		where w.slug = 'acme' and a.status = 'active' and a.name in ('ci-bot', 'reader', 'farmer') order by a.created_at`)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return fmt.Errorf("recall service accounts: %w", err)
	}
	for _, r := range list {
		token := bearer.NewServiceToken()
		meta := demoWorkspace{id: r.Workspace}.by(demoPerson{user: r.Owner, email: r.OwnerEmail})
		meta.Origin = events.FromCLI
		if _, err := s.commands.RotateServiceAccount(s.ctx,
			commands.RotateServiceAccount{Meta: meta, Account: r.Account, Token: token}); err != nil {
			return fmt.Errorf("rotate service account %s: %w", r.Name, err)
		}
		s.demo.ServiceAccounts = append(s.demo.ServiceAccounts, Account{r.Name, token.Reveal(), r.Scopes, r.Workspace, r.Slug})
	}
	return nil
}
