package codehost

import (
	"context"
	"errors"
	"net/http"

	"code.gitea.io/sdk/gitea"
	"github.com/google/go-github/v75/github"

	"svc/engine/client"
)

// hookEvents are the changes that a host tells of. Gitea has those of labels apart.
var hookEvents = []string{"push", "pull_request", "issues"}

// A hookAt is a hook of a repository.
type hookAt struct {
	id  int64
	url string
}

func (h hosted) Hook(ctx context.Context, in client.HookInput) (client.HookResult, error) {
	set, err := h.setUp(ctx, in)
	if r, ok := errors.AsType[*refusal](err); ok {
		switch r.status {
		case http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity:
			return client.HookResult{Why: r.words}, nil
		}
	}
	return client.HookResult{Set: set}, failure(ctx, err)
}

// setUp changes the first hook of the addresses to be as wanted and removes the others, or makes one. Without a secret it
// removes all.
func (h hosted) setUp(ctx context.Context, in client.HookInput) (set bool, err error) {
	list, err := h.hooks(ctx)
	if err != nil {
		return false, err
	}
	secret := in.Secret.Token.Reveal()
	for _, one := range list {
		switch {
		case one.url == "" || one.url != in.URL && one.url != in.Former:
			continue
		case set || secret == "":
			err = h.removeHook(ctx, one.id)
		default:
			err = h.setHook(ctx, one.id, in.URL, secret)
			set = true
		}
		if err != nil {
			return false, err
		}
	}
	if !set && secret != "" {
		err = h.setHook(ctx, 0, in.URL, secret)
		set = err == nil
	}
	return set, err
}

func (g *gitHub) hooks(ctx context.Context) (list []hookAt, err error) {
	found, _, err := g.api.Repositories.ListHooks(ctx, g.owner, g.name, &github.ListOptions{PerPage: hostPage})
	for _, h := range found {
		list = append(list, hookAt{h.GetID(), h.GetConfig().GetURL()})
	}
	return list, err
}

func (g *gitHub) setHook(ctx context.Context, id int64, url, secret string) (err error) {
	wanted := &github.Hook{
		Active: new(true), Events: hookEvents,
		Config: &github.HookConfig{URL: &url, Secret: &secret, ContentType: new("json"), InsecureSSL: new("0")},
	}
	if id == 0 {
		_, _, err = g.api.Repositories.CreateHook(ctx, g.owner, g.name, wanted)
		return err
	}
	_, _, err = g.api.Repositories.EditHook(ctx, g.owner, g.name, id, wanted)
	return err
}

func (g *gitHub) removeHook(ctx context.Context, id int64) error {
	_, err := g.api.Repositories.DeleteHook(ctx, g.owner, g.name, id)
	return err
}

func (g *giteaForge) hooks(ctx context.Context) (list []hookAt, err error) {
	found, _, err := g.in(ctx).ListRepoHooks(g.owner, g.name, gitea.ListHooksOptions{ListOptions: giteaPage(1)})
	for _, h := range found {
		list = append(list, hookAt{h.ID, h.Config["url"]})
	}
	return list, err
}

func (g *giteaForge) setHook(ctx context.Context, id int64, url, secret string) (err error) {
	config := map[string]string{"url": url, "secret": secret, "content_type": "json"}
	kinds := append([]string{"issue_label"}, hookEvents...)
	if id == 0 {
		_, _, err = g.in(ctx).CreateRepoHook(g.owner, g.name, gitea.CreateHookOption{
			Type: gitea.HookTypeGitea, Config: config, Events: kinds, Active: true,
		})
		return err
	}
	_, err = g.in(ctx).EditRepoHook(g.owner, g.name, id, gitea.EditHookOption{Config: config, Events: kinds, Active: new(true)})
	return err
}

func (g *giteaForge) removeHook(ctx context.Context, id int64) error {
	_, err := g.in(ctx).DeleteRepoHook(g.owner, g.name, id)
	return err
}
