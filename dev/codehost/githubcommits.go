package codehost

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"svc/dev/codehost/bare"
)

// gitCommit is the part of a commit that git knows.
func (v *visit) gitCommit(c bare.Commit) object {
	by := func(s bare.Signature) object { return object{"name": s.Name, "email": s.Email, "date": stamp(s.At)} }
	return object{
		"author": by(c.Author), "committer": by(c.Committer), "message": c.Message, "url": v.in("/git/commits/%s", c.ID),
		"tree": object{"sha": c.Tree, "url": v.in("/git/trees/%s", c.Tree)}, "comment_count": 0,
		"verification": object{"verified": false, "reason": "unsigned", "signature": nil, "payload": nil, "verified_at": nil},
	}
}

// listedCommit returns a commit as lists have it.
func (v *visit) listedCommit(c bare.Commit) object {
	parents := []object{}
	for _, p := range c.Parents {
		parents = append(parents, object{"sha": p, "url": v.in("/commits/%s", p), "html_url": v.web("/commit/%s", p)})
	}
	return object{
		"sha": c.ID, "node_id": nodeID("Commit", v.repo.ID) + c.ID, "commit": v.gitCommit(c), "parents": parents,
		"url": v.in("/commits/%s", c.ID), "html_url": v.web("/commit/%s", c.ID), "comments_url": v.in("/commits/%s/comments", c.ID),
		"author": v.userOrNull(v.h.loginOf(c.Author.Email)), "committer": v.userOrNull(v.h.loginOf(c.Committer.Email)),
	}
}

// loginOf returns the login of the person with an address, or "".
func (h *host) loginOf(address string) string {
	for _, p := range h.people.all() {
		if p.has(address) {
			return p.Login
		}
	}
	return ""
}

// commit returns a commit with its changes.
func (v *visit) commit(id string) (object, error) {
	c, err := v.repo.bare.Commit(v.Context(), id)
	if err != nil {
		return nil, err
	}
	parent := ""
	if len(c.Parents) > 0 {
		parent = c.Parents[0]
	}
	changes, err := v.repo.bare.Diff(v.Context(), parent, id)
	if err != nil {
		return nil, err
	}
	out := v.listedCommit(c)
	added, removed := lines(changes)
	out["stats"] = object{"additions": added, "deletions": removed, "total": added + removed}
	out["files"] = v.files(changes, id)
	return out, nil
}

func lines(changes []bare.Change) (added, removed int) {
	for _, c := range changes {
		added, removed = added+c.Added, removed+c.Removed
	}
	return added, removed
}

// files returns changes as GitHub's list of files at a commit.
func (v *visit) files(changes []bare.Change, commit string) []object {
	list := []object{}
	for _, c := range changes {
		path := escaped(c.Path)
		file := object{
			"sha": c.ID, "filename": c.Path, "status": c.Status, "additions": c.Added, "deletions": c.Removed, "changes": c.Added + c.Removed,
			"blob_url": v.web("/blob/%s/%s", commit, path), "raw_url": v.web("/raw/%s/%s", commit, path),
			"contents_url": v.in("/contents/%s?ref=%s", path, commit),
		}
		if c.Patch != "" {
			file["patch"] = c.Patch
		}
		if c.Old != "" {
			file["previous_filename"] = c.Old
		}
		list = append(list, file)
	}
	return list
}

// maxCommits bounds the list of commits.
const maxCommits = 1000

func listCommits(v *visit) (int, any, error) {
	id, err := v.repo.bare.Resolve(v.Context(), cmp.Or(v.URL.Query().Get("sha"), v.repo.DefaultBranch))
	if err != nil {
		return 0, nil, missing(err, errNotFound)
	}
	commits, err := v.repo.bare.Log(v.Context(), maxCommits, id)
	if err != nil {
		return 0, nil, err
	}
	list := []object{}
	for _, c := range paged(v, commits) {
		list = append(list, v.listedCommit(c))
	}
	return http.StatusOK, list, nil
}

// getCommit answers a commit, or what is said of it.
func getCommit(v *visit) (int, any, error) {
	name := v.PathValue("ref")
	for suffix, handle := range map[string]func(*visit, string) (int, any, error){
		"/status": combinedStatus, "/statuses": listStatuses, "/check-runs": checkRuns,
	} {
		if ref, ok := strings.CutSuffix(name, suffix); ok {
			id, err := v.resolve(ref)
			if err != nil {
				return 0, nil, err
			}
			return handle(v, id)
		}
	}
	id, err := v.resolve(name)
	if err != nil {
		return 0, nil, err
	}
	out, err := v.commit(id)
	return http.StatusOK, out, err
}

// resolve returns the commit that a path names.
func (v *visit) resolve(ref string) (string, error) {
	id, err := v.repo.bare.Resolve(v.Context(), strings.TrimPrefix(ref, "heads/"))
	return id, missing(err, &apiError{status: http.StatusUnprocessableEntity, message: "No commit found for SHA: " + ref})
}

// status returns a status as lists have it.
func (v *visit) status(s *status) object {
	return object{
		"id": s.ID, "node_id": nodeID("StatusContext", s.ID), "url": v.in("/statuses/%s", s.Commit), "state": s.State, "context": s.Context,
		"description": textOrNull(s.Description), "target_url": textOrNull(s.TargetURL), "avatar_url": base(v.Request) + "/avatars/" + s.Author,
		"created_at": stamp(s.CreatedAt), "updated_at": stamp(s.CreatedAt),
	}
}

func combinedStatus(v *visit, id string) (int, any, error) {
	list := v.repo.statusesOf(id)
	out := []object{}
	for _, s := range paged(v, list) {
		out = append(out, v.status(s))
	}
	return http.StatusOK, object{
		"state": combined(list), "statuses": out, "sha": id, "total_count": len(list), "repository": v.repository(),
		"commit_url": v.in("/commits/%s", id), "url": v.in("/commits/%s/status", id),
	}, nil
}

func listStatuses(v *visit, id string) (int, any, error) {
	list := []object{}
	for _, s := range slices.Backward(v.repo.Statuses) {
		if s.Commit == id {
			out := v.status(s)
			out["creator"] = v.user(s.Author)
			list = append(list, out)
		}
	}
	return http.StatusOK, paged(v, list), nil
}

// checkRuns answers that there are none: this host runs no checks.
func checkRuns(*visit, string) (int, any, error) {
	return http.StatusOK, object{"total_count": 0, "check_runs": []object{}}, nil
}

func createStatus(v *visit) (int, any, error) {
	var in struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	id, err := v.resolve(v.PathValue("sha"))
	switch {
	case err != nil:
		return 0, nil, err
	case !slices.Contains([]string{"error", "failure", "pending", "success"}, in.State):
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity,
			message: fmt.Sprintf("Validation Failed: State is not included in the list: %q", in.State)}
	case len(in.Description) > 140:
		return 0, nil, invalid("Status", "description", "custom", "description is too long (maximum is 140 characters)")
	}
	s := &status{
		ID: v.repo.nextID(), Commit: id, State: in.State, Context: cmp.Or(in.Context, "default"), Description: in.Description,
		TargetURL: in.TargetURL, Author: v.who.login, CreatedAt: v.h.now(),
	}
	v.repo.Statuses = append(v.repo.Statuses, s)
	v.h.counts.add(v.repo.Name, func(c *effects) { c.Statuses++ })
	out := v.status(s)
	out["creator"] = v.user(s.Author)
	return http.StatusCreated, out, v.repo.save()
}
