package main

import (
	"context"
	"errors"
	"net/url"
	"strings"
)

func (s *stack) migrate(ctx context.Context, to string) error {
	s.say("bringing the database up to date")
	return s.svcDB(ctx, to)
}

func (s *stack) seed(ctx context.Context, to string) error {
	s.say("updating the demonstration data, which takes some seconds the first time")
	return s.svcDB(ctx, to, "-seed=development", "-seed-file="+s.folder.file(demoFile))
}

// svcDB runs svc-db on the database at to, and returns an error unless it exits with 0.
func (s *stack) svcDB(ctx context.Context, to string, args ...string) error {
	plain, environ, err := hidePasswords(to)
	if err != nil {
		return err
	}
	cmd := s.command("svc-db", append(args, "-url="+plain), append(environ, "SVC_VAULT_MASTER_KEY="+s.secrets.VaultMasterKey))
	c, err := launch(cmd, "svc-db", s.out.named("svc-db"), func(error) {})
	if err != nil {
		return err
	}
	defer c.stop(stopTimeout, s.force)
	if err := c.wait(ctx); err != nil && ctx.Err() == nil {
		return s.withLog(err)
	}
	return context.Cause(ctx)
}

// hidePasswords returns the URL without passwords, because other users can list processes, and the
// passwords as environment variables.
func hidePasswords(whole string) (string, []string, error) {
	u, err := url.Parse(whole)
	if err != nil {
		return "", nil, errors.New("the database address cannot be read") // err quotes it
	}
	query := u.Query()
	password, has := u.User.Password()
	if has {
		u.User = url.User(u.User.Username())
	} else {
		password = query.Get("password")
	}
	environ := []string{"SVC_DB_PASSWORD=" + password}
	if query.Has("sslpassword") {
		environ = append(environ, "PGSSLPASSWORD="+query.Get("sslpassword"))
	}
	if query.Has("password") || query.Has("sslpassword") {
		query.Del("password")
		query.Del("sslpassword")
		u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // PostgreSQL does not read + as a space
	}
	return u.String(), environ, nil
}
