package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"svc/config"
)

// addresses is the content of dev.json about the service that runs or ran last. Parts that do not
// exist have the address "".
type addresses struct {
	RestURL     string `json:"restUrl"`
	AppURL      string `json:"appUrl"`
	FarmURL     string `json:"farmUrl"`
	EngineURL   string `json:"engineUrl"`
	MetricsURL  string `json:"metricsUrl"`
	CodeHostURL string `json:"codeHostUrl"`

	// Tokens of the code host: one may push and merge, the other only read.
	CodeHostToken     string `json:"codeHostToken"`
	CodeHostReadToken string `json:"codeHostReadToken"`

	// Needed to enroll another machine.
	FarmCAFile      string `json:"farmCaFile"`
	FarmReleasesDir string `json:"farmReleasesDir"`

	DatabaseURL string `json:"databaseUrl"` // contains its password
	demo
}

// announce writes dev.json and prints how to use the service, after the views show all of the
// demonstration. It does not wait for the views of another database, which may be large.
func (s *stack) announce(ctx context.Context, db string, d demo) error {
	if len(d.People) > 0 {
		if err := s.awaitViews(ctx, db, viewsTimeout); err != nil {
			return err
		}
	}
	a := addresses{
		RestURL: s.restURL(), AppURL: s.appURL(), EngineURL: s.engineURL(), MetricsURL: s.metricsURL(), DatabaseURL: db, demo: d,
		FarmURL: s.farmURL(), FarmCAFile: s.folder.file(authorityFile), FarmReleasesDir: s.folder.file(releasesFolder),
		CodeHostURL: s.codeHostURL(), CodeHostToken: s.secrets.CodeHostToken, CodeHostReadToken: s.secrets.CodeHostReadToken,
	}
	if err := s.folder.write("dev.json", a); err != nil {
		return err
	}
	text, err := banner(a, s.runner, s.folder)
	if err != nil {
		return err
	}
	s.out.print(text)
	return nil
}

// banner describes where everything is, with a command to try each way in. It contains passwords of
// demonstration people but no tokens, which are in dev.json.
func banner(a addresses, runner registeredRunner, f *folder) (string, error) {
	db, err := config.ParseURL(a.DatabaseURL)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `
The service runs. Ctrl-C stops it.

  In a browser, to sign in as any of the demonstration's people, and to queue an issue on the page Backlog:

             %[8]s/

  REST API   %[1]s/api/v1
  API docs   %[1]s/api/docs
  Engine     %[2]s
  Metrics    %[3]s
  Database   %[4]s
  Farm       %[6]s, %[7]s
  Code host  %[9]s, with the repositories of the demonstration
  As JSON    %[5]s, with passwords and tokens
`, a.RestURL, a.EngineURL, a.MetricsURL, db, f.file("dev.json"), a.FarmURL, runner.describe(), a.AppURL, a.CodeHostURL)
	if len(a.People) > 0 {
		signIn(&b, a, f)
	}
	if len(a.ServiceAccounts) > 0 {
		useToken(&b, a, f)
	}
	b.WriteByte('\n')
	return b.String(), nil
}

// describe says whether jobs will run.
func (m registeredRunner) describe() string {
	switch m.State {
	case "":
		return "without a runner"
	case "online":
		return "where the runner " + m.Name + " is online" + m.sandboxes()
	}
	return "where the runner " + m.Name + " is " + m.State
}

// sandboxes says which sandboxes the runner offers, and whether a job has to name one.
func (m registeredRunner) sandboxes() string {
	switch {
	case len(m.Sandboxes) == 0:
		return ""
	case slices.Contains(m.Sandboxes, "bubblewrap"):
		return ", with the sandboxes " + strings.Join(m.Sandboxes, " and ")
	}
	return `, without bubblewrap: jobs need "sandbox":{"kind":"none"}`
}

func signIn(b *strings.Builder, a addresses, f *folder) {
	p := a.People[0]
	body, _ := json.Marshal(map[string]string{"email": p.Email, "password": p.Password}) // strings always encode
	cookies := quote(f.file("cookies"))
	fmt.Fprintf(b, `
Sign in as %s, %s of %s, and read the members:

  curl -sS -c %s -H 'Content-Type: application/json' -d %s %s/api/auth/sign-in/email
  curl -sS -b %[4]s -H %[7]s %[6]s/api/v1/members
`, p.Name, p.Role, p.WorkspaceSlug, cookies, quote(string(body)), a.RestURL, quote("X-Svc-Tenant: "+p.WorkspaceSlug))
}

func useToken(b *strings.Builder, a addresses, f *folder) {
	name := a.reader()
	fmt.Fprintf(b, `
Read the active runs as the service account %s:

  token=$(sed -n '/"name": "%[1]s"/,/"token"/s/.*"token": "\(.*\)".*/\1/p' %s | head -n 1)
  curl -sS -H "Authorization: Bearer $token" '%s/api/v1/runs?status=active'
`, name, quote(f.file("dev.json")), a.RestURL)
}

// reader returns the name of the service account in the banner.
func (d demo) reader() string {
	for _, s := range d.ServiceAccounts {
		if s.Name == "reader" {
			return s.Name
		}
	}
	return d.ServiceAccounts[0].Name
}

// quote quotes text for a shell.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
