package codehost

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"svc/dev/codehost/api"
	"svc/dev/codehost/bare"
	"svc/dev/codehost/hooks"
	"svc/dev/codehost/people"
	"svc/dev/codehost/record"
)

// user returns an account as other objects name it.
func (v *visit) user(login string) object {
	p, in := v.h.account(login), v.api("/users/%s", login)
	out := object{
		"login": login, "id": p.ID, "node_id": api.NodeID("User", p.ID), "gravatar_id": "", "type": "User", "site_admin": false,
		"avatar_url": api.Base(v.Request) + "/avatars/" + login, "html_url": api.Base(v.Request) + "/" + login, "url": in,
		"user_view_type": "public",
	}
	for name, path := range map[string]string{
		"followers_url": "/followers", "following_url": "/following{/other_user}", "gists_url": "/gists{/gist_id}",
		"starred_url": "/starred{/owner}{/repo}", "subscriptions_url": "/subscriptions", "organizations_url": "/orgs",
		"repos_url": "/repos", "events_url": "/events{/privacy}", "received_events_url": "/received_events",
	} {
		out[name] = in + path
	}
	return out
}

// userOrNull is null for "".
func (v *visit) userOrNull(login string) any {
	if login == "" {
		return nil
	}
	return v.user(login)
}

// repository returns the repository as other objects name it.
func (v *visit) repository() object {
	r := v.repo
	owner, name, _ := strings.Cut(r.Name, "/")
	open := 0
	for _, i := range r.Issues {
		if !i.Closed {
			open++
		}
	}
	visibility := "public"
	if r.Private {
		visibility = "private"
	}
	here := api.Base(v.Request)
	out := object{
		"id": r.ID, "node_id": api.NodeID("Repository", r.ID), "name": name, "full_name": r.Name, "owner": v.user(owner),
		"private": r.Private, "visibility": visibility, "archived": false, "disabled": false, "fork": false,
		"description": api.TextOrNull(r.Description), "homepage": nil, "language": nil, "license": nil, "mirror_url": nil,
		"html_url": v.web(""), "clone_url": v.web(".git"), "git_url": "git://" + v.Host + "/" + r.Name + ".git",
		"ssh_url": "git@" + v.Host + ":" + r.Name + ".git",
		"svn_url": here + "/" + r.Name, "default_branch": r.DefaultBranch, "topics": []string{}, "size": 1,
		"created_at": api.Stamp(r.CreatedAt), "updated_at": api.Stamp(r.PushedAt), "pushed_at": api.Stamp(r.PushedAt),
		"stargazers_count": 0, "watchers_count": 0, "watchers": 0, "forks_count": 0, "forks": 0, "open_issues_count": open, "open_issues": open,
		"has_issues": true, "has_projects": false, "has_wiki": false, "has_pages": false, "has_downloads": false,
		"has_discussions": false, "is_template": false, "web_commit_signoff_required": false, "allow_forking": true,
	}
	for name, path := range api.RepositoryLinks {
		out[name] = v.in("%s", path)
	}
	if v.who.known {
		push := v.who.mayPush(r)
		out["permissions"] = object{"admin": false, "maintain": false, "push": push, "triage": push, "pull": true}
	}
	return out
}

func getRepository(v *visit) (int, any, error) {
	out := v.repository()
	allows := func(method string) bool { return slices.Contains(v.repo.Methods, method) }
	maps.Copy(out, map[string]any{
		"network_count": 0, "subscribers_count": 0, "allow_auto_merge": false, "delete_branch_on_merge": false, "allow_update_branch": false,
		"allow_merge_commit": allows("merge"), "allow_squash_merge": allows("squash"), "allow_rebase_merge": false,
	})
	return http.StatusOK, out, nil
}

// createRepository makes an empty repository.
func createRepository(v *visit) (int, any, error) {
	var in struct {
		Name, Description string
		Private           bool
	}
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	name := strings.ToLower(cmp.Or(v.PathValue("org"), v.who.login) + "/" + in.Name)
	switch {
	case !v.who.push:
		return 0, nil, api.ErrForbidden
	case !record.IsName(name) || v.h.repositories.Has(name):
		return 0, nil, api.Invalid("Repository", "name", "custom", "name already exists on this account")
	}
	made := Repository{Name: name, Private: in.Private, At: v.h.now(), Writers: []string{v.who.login}}.New()
	made.ID = people.IDFor(name + api.Stamp(v.h.now())) // another one than a repository had that was called so
	made.Description = in.Description
	r := &record.Repository{File: filepath.Join(v.h.folder, fmt.Sprintf("%d", made.ID), "repository.json"), Record: made}
	var err error
	if r.Bare, err = bare.Create(v.Context(), strings.TrimSuffix(r.File, ".json")+".git", record.MainBranch); err != nil {
		return 0, nil, err
	}
	if err := r.Save(); err != nil {
		return 0, nil, err
	}
	v.h.repositories.Add(r)
	v.repo = r
	_, out, err := getRepository(v)
	return http.StatusCreated, out, err
}

// getRules answers that there are no rules of branches.
func getRules(*visit) (int, any, error) { return http.StatusOK, []object{}, nil }

// hooked makes a handler of one about hooks.
func hooked(do func(hooks.Request) (int, any, error)) handler {
	return func(v *visit) (int, any, error) {
		status, out, err := do(hooks.Request{Request: v.Request, Record: v.repo.Record, At: v.in("/hooks"), Now: v.h.now()})
		if err != nil || v.Method == http.MethodGet {
			return status, out, err
		}
		return status, out, v.repo.Save()
	}
}

// getPermission answers what an account may do.
func getPermission(v *visit) (int, any, error) {
	may := v.h.permission(v.repo, v.PathValue("login"))
	return http.StatusOK, object{"permission": may, "role_name": may, "user": v.user(v.PathValue("login"))}, nil
}

// addCollaborator lets an account write.
func addCollaborator(v *visit) (int, any, error) {
	if login := v.PathValue("login"); !slices.Contains(v.repo.Writers, login) {
		v.repo.Writers = append(v.repo.Writers, login)
	}
	return http.StatusNoContent, nil, v.repo.Save()
}
