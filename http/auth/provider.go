package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"svc/input"
)

// scopesOf returns the scopes to request from a kind of code host: profile and addresses. Gitea and Forgejo
// have no scope for addresses alone, and Gitea grants everything if a scope is unknown.
func scopesOf(kind string) []string {
	if kind == "github" {
		return []string{"read:user", "user:email"}
	}
	return []string{"read:user"}
}

const (
	providerLimit = 8 * time.Second // of each of three calls in a request, which is limited to 30 seconds
	maxProfile    = 1 << 20         // bytes of a response
	maxEmails     = 100             // of a person
)

// A Provider is a code host with GitHub's OAuth and user API: GitHub, GitHub Enterprise, Gitea or Forgejo.
type Provider struct {
	name   string
	host   string // the address for browsers, as they write it
	oauth  oauth2.Config
	api    string // without a trailing slash
	client *http.Client
}

// NewProvider returns a provider. Its name is its kind: github, gitea or forgejo. web is its address for
// browsers, api the base of its API, and origin the address of this service for browsers.
func NewProvider(name, clientID, clientSecret, web, api, origin string) *Provider {
	web, api = strings.TrimSuffix(web, "/"), strings.TrimSuffix(api, "/")
	return &Provider{
		name: name, host: hostOf(web), api: api,
		oauth: oauth2.Config{
			ClientID: clientID, ClientSecret: clientSecret, Scopes: scopesOf(name),
			RedirectURL: origin + prefix + "/callback/" + name,
			Endpoint: oauth2.Endpoint{
				AuthURL: web + "/login/oauth/authorize", TokenURL: web + "/login/oauth/access_token",
				AuthStyle: oauth2.AuthStyleInParams,
			},
		},
		client: &http.Client{
			Timeout: providerLimit,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // keeps secrets from other hosts
			},
		},
	}
}

// hostOf returns an address of a code host such that two spellings of it are equal.
func hostOf(web string) string {
	u, err := url.Parse(web)
	if err != nil {
		return web
	}
	return input.Origin(u) + u.EscapedPath()
}

// authorize returns the provider's URL at which the browser signs in.
func (p *Provider) authorize(state, verifier string) string {
	return p.oauth.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))
}

// A profile is a person as the provider describes them.
type profile struct {
	ID        int64    `json:"id"`
	Login     string   `json:"login"`
	Name      string   `json:"name"`
	FullName  string   `json:"full_name"` // the name at Gitea and Forgejo
	AvatarURL string   `json:"avatar_url"`
	emails    []string // verified, the primary one first
}

// displayName returns the name to store for a person, never empty.
func (p profile) displayName() string {
	for _, text := range []string{p.Name, p.FullName, p.Login} {
		if name := input.CleanName(text); name != "" {
			return name
		}
	}
	return "Somebody"
}

// A publicError is an error of a sign-in whose text is a code that the browser is shown.
type publicError string

func (e publicError) Error() string { return string(e) }

const (
	errInvalidCode publicError = "invalid_code"
	errNoUserInfo  publicError = "unable_to_get_user_info"
	errNoEmail     publicError = "email_not_found"
	errNotLinked   publicError = "account_not_linked"
	errRedirect    publicError = "redirect_uri_mismatch"
	errScope       publicError = "invalid_scope"
)

// exchange exchanges a code for a token, and returns the person's profile and the token.
func (p *Provider) exchange(ctx context.Context, code, verifier string) (profile, *oauth2.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, p.client)
	token, err := p.oauth.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok && r.ErrorCode == errRedirect.Error() {
		return profile{}, nil, errRedirect
	}
	if err != nil {
		return profile{}, nil, fmt.Errorf("%w: exchange: %w", errInvalidCode, redacted(err))
	}
	if scope := p.extraScope(token); scope != "" {
		return profile{}, nil, fmt.Errorf("%w: granted %.60q, which was not requested", errScope, scope)
	}
	var user profile
	if err := p.get(ctx, token, "/user", &user); err != nil {
		return user, nil, fmt.Errorf("%w: %w", errNoUserInfo, err)
	}
	if user.ID == 0 {
		return user, nil, fmt.Errorf("%w: the provider's answer has no id", errNoUserInfo)
	}
	user.Login, user.AvatarURL = input.CleanName(user.Login), input.PictureURL(user.AvatarURL)
	if user.emails, err = p.verifiedEmails(ctx, token); err != nil {
		return user, nil, fmt.Errorf("%w: %w", errNoUserInfo, err)
	}
	if len(user.emails) == 0 {
		return user, nil, errNoEmail
	}
	return user, token, nil
}

// extraScope returns a scope of the token that was not requested, "" if there is none or the provider does
// not report scopes. Such a token is never used or stored, so that a leak of the database and the vault's key
// does not expose it.
func (p *Provider) extraScope(token *oauth2.Token) string {
	granted, _ := token.Extra("scope").(string)
	for _, scope := range strings.FieldsFunc(granted, func(r rune) bool { return r == ' ' || r == ',' }) {
		if !slices.Contains(p.oauth.Scopes, scope) {
			return scope
		}
	}
	return ""
}

// redacted removes the provider's response from an error, because it may contain a token.
func redacted(err error) error {
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("the provider answers %s %.60q", r.Response.Status, r.ErrorCode)
	}
	return err
}

// verifiedEmails returns up to maxEmails verified addresses, the primary one first.
func (p *Provider) verifiedEmails(ctx context.Context, token *oauth2.Token) (list []string, err error) {
	var emails []struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	if err := p.get(ctx, token, "/user/emails?per_page=100", &emails); err != nil {
		return nil, err
	}
	for _, primary := range []bool{true, false} {
		for _, e := range emails {
			address, ok := input.Email(e.Email)
			if ok && e.Verified && e.Primary == primary && !slices.Contains(list, address) {
				list = append(list, address)
			}
		}
	}
	return list[:min(len(list), maxEmails)], nil
}

func (p *Provider) get(ctx context.Context, token *oauth2.Token, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.api+path, nil)
	if err != nil {
		return fmt.Errorf("get %s: %w", path, err)
	}
	token.SetAuthHeader(req)
	req.Header.Set("Accept", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("get %s: %w", path, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", path, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxProfile)).Decode(into); err != nil {
		return fmt.Errorf("get %s: unexpected answer", path)
	}
	return nil
}
