package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A handmade does by hand what a run does at the code host: the same git commands and requests, one after the other, with a
// bare copy of the repository that it keeps, and nothing else.
type handmade struct {
	dir, repo, clone, api string
	header                http.Header
}

// newHandmade clones a repository into a folder.
func newHandmade(ctx context.Context, dir, codeHost, repo string) (*handmade, error) {
	h := &handmade{
		dir: dir, repo: filepath.Join(dir, "copy.git"), clone: "http://" + codeHost + "/" + repo + ".git",
		api: "http://" + codeHost + "/api/v3/repos/" + repo, header: http.Header{"Authorization": {"Bearer " + pushToken}},
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	_, err := h.git(ctx, "", "clone", "--quiet", "--bare", h.clone, h.repo)
	return h, err
}

// git runs git on the copy, and returns what it prints without the end of line.
func (h *handmade) git(ctx context.Context, in string, args ...string) (string, error) {
	auth := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+pushToken))
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir, c.Stdin = h.dir, strings.NewReader(in)
	c.Env = append(os.Environ(), "GIT_DIR="+h.repo, "GIT_INDEX_FILE="+filepath.Join(h.dir, "index"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0="+auth,
		"GIT_CONFIG_KEY_1=gc.auto", "GIT_CONFIG_VALUE_1=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, said.Bytes())
	}
	return strings.TrimSpace(out.String()), nil
}

// A script runs commands and requests until one fails.
type script struct {
	*handmade
	ctx context.Context
	err error
}

func (s *script) git(in string, args ...string) (out string) {
	if s.err == nil {
		out, s.err = s.handmade.git(s.ctx, in, args...)
	}
	return out
}

func (s *script) request(method, path string, in, out any) {
	if s.err == nil {
		s.err = callJSON(s.ctx, method, s.api+path, s.header, in, out)
	}
}

func (s *script) heads(branches ...string) {
	args := []string{"ls-remote", "--refs", "--quiet", s.clone}
	for _, b := range branches {
		args = append(args, "refs/heads/"+b)
	}
	s.git("", args...)
}

// run does what a run of an issue does.
func (h *handmade) run(ctx context.Context, issue int) error {
	s := &script{handmade: h, ctx: ctx}
	branch := fmt.Sprintf("run/%d", issue)

	s.request("GET", "", nil, nil)
	s.request("GET", fmt.Sprintf("/issues/%d", issue), nil, nil)
	s.heads("main")

	_, patch, _ := strings.Cut(patched(issue).Body, "```diff\n")
	patch, _, _ = strings.Cut(patch, "```")
	s.request("GET", "", nil, nil)
	head := s.commit(patch, branch)

	s.git("", "diff-tree", "-r", "-p", "main", head)
	s.checkout(branch, head)

	number := s.propose(branch, head, issue)

	s.request("GET", "", nil, nil)
	s.heads(branch, "main")
	tree, _, _ := strings.Cut(s.git("", "merge-tree", "--write-tree", "main", head), "\n")
	s.git("merge", "commit-tree", tree, "-p", "main", "-p", head)

	s.merge(number, branch, head)

	s.request("GET", "", nil, nil)
	s.request("GET", fmt.Sprintf("/pulls/%d", number), nil, nil)
	s.heads(branch, "svc-lane/x")
	s.git("", "push", "--quiet", "--force-with-lease="+branch+":"+head, s.clone, ":refs/heads/"+branch)
	var comments []struct{ ID int64 }
	s.request("GET", fmt.Sprintf("/issues/%d/comments", issue), nil, &comments)
	if s.err == nil && len(comments) == 0 {
		s.err = errors.New("no comment")
	}
	if s.err == nil {
		s.request("PATCH", fmt.Sprintf("/issues/comments/%d", comments[0].ID), map[string]string{"body": "It was merged."}, nil)
	}
	return s.err
}

// commit commits a patch on the main branch, pushes it to a new branch, and returns the commit.
func (s *script) commit(patch, branch string) string {
	s.git("", "read-tree", "main")
	s.git(patch, "apply", "--cached", "--binary", "-")
	tree := s.git("", "write-tree")
	head := s.git("page", "commit-tree", tree, "-p", "main")
	s.git("", "push", "--quiet", "--force-with-lease=refs/heads/"+branch+":", s.clone, head+":refs/heads/"+branch)
	return head
}

// checkout checks a commit out as a build machine does.
func (s *script) checkout(branch, head string) {
	if s.err != nil {
		return
	}
	dir, err := os.MkdirTemp(s.dir, "job-")
	if err != nil {
		s.err = err
		return
	}
	defer os.RemoveAll(dir)
	job := &script{handmade: &handmade{dir: dir, repo: filepath.Join(dir, ".git")}, ctx: s.ctx}
	job.git("", "init", "--quiet", "--template=", dir)
	job.git("", "fetch", "--quiet", "--no-tags", "--depth=1", s.clone, head)
	job.git("", "--work-tree="+dir, "checkout", "--quiet", "--detach", head)
	s.err = job.err
}

// propose opens a pull request, and says so.
func (s *script) propose(branch, head string, issue int) int {
	var pr struct{ Number int }
	s.request("GET", "", nil, nil)
	s.heads(branch)
	s.request("GET", "/pulls?state=all&per_page=100&head="+url.QueryEscape("acme:"+branch), nil, nil)
	s.request("POST", "/pulls", map[string]string{"title": "Add page", "head": branch, "base": "main", "body": "Closes it."}, &pr)
	s.status(head, "pending")
	s.request("GET", fmt.Sprintf("/issues/%d/comments?per_page=100", issue), nil, nil)
	s.request("POST", fmt.Sprintf("/issues/%d/comments", issue), map[string]string{"body": "A run works on it."}, nil)
	return pr.Number
}

// status marks a commit.
func (s *script) status(head, state string) {
	s.request("GET", "/commits/"+head+"/statuses?per_page=100", nil, nil)
	s.request("POST", "/statuses/"+head, map[string]string{"state": state, "context": "svc/run", "description": "x"}, nil)
}

// merge has the host merge a pull request, and fetches what that gives.
func (s *script) merge(number int, branch, head string) {
	pull := fmt.Sprintf("/pulls/%d", number)
	s.request("GET", "", nil, nil)
	s.request("GET", pull, nil, nil)
	s.heads(branch, "main")
	s.status(head, "success")
	s.request("PUT", pull+"/merge", map[string]string{"sha": head, "merge_method": "merge", "commit_title": "Add page"}, nil)
	s.request("GET", pull, nil, nil)
	s.git("", "fetch", "--quiet", "--no-tags", s.clone, "+refs/heads/main:refs/heads/main")
}

// times does something n times and returns how long that took.
func times(n int, do func() error) (work, error) {
	from := time.Now()
	for range n {
		if err := do(); err != nil {
			return work{}, err
		}
	}
	return work{n, time.Since(from)}, nil
}
