package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	s.out.print(banner(a, s.runner, s.folder))
	return nil
}

// banner is the last thing on the terminal once everything runs: where to begin, as whom, and where the rest is. It
// contains the password of demonstration people but no tokens, which are in dev.json.
func banner(a addresses, runner registeredRunner, f *folder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe service runs. Ctrl-C stops it.\n\n  Web app    %s/\n", a.AppURL)
	if len(a.People) > 0 {
		fmt.Fprintf(&b, "  Sign in    as %s\n  Password   %s\n", a.oneOfEachRole(), a.People[0].Password)
	}
	fmt.Fprintf(&b, `  API        %s/api/docs
  Farm       %s, %s
  Code host  %s/
  Log        %s; SVC_VERBOSE=true shows all of it here
  The rest   %s: every address, person and token; README.md: a tour

`, a.RestURL, a.FarmURL, runner.describe(), a.CodeHostURL, f.shown(logName), f.shown("dev.json"))
	return b.String()
}

// oneOfEachRole names the first person of each role in the first workspace.
func (d demo) oneOfEachRole() string {
	var list []string
	named := map[string]bool{}
	for _, p := range d.People {
		if p.WorkspaceSlug == d.People[0].WorkspaceSlug && !named[p.Role] {
			named[p.Role] = true
			list = append(list, fmt.Sprintf("%s (%s)", p.Email, p.Role))
		}
	}
	return strings.Join(list, ", ")
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
