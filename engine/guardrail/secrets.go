package guardrail

import (
	"regexp"

	"svc/engine/client"
)

// secretForms are the forms of well-known secrets. The list is short on purpose: a form that matches
// ordinary text would block ordinary work.
var secretForms = []struct {
	name string
	form *regexp.Regexp
}{
	{"private key", regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`)},
	{"AWS access key", regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"GitHub token", regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})\b`)},
	{"GitLab token", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{"Slack token", regexp.MustCompile(`\bxox[abprs]-[A-Za-z0-9-]{10,}`)},
	{"Google API key", regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}\b`)},
	{"Stripe key", regexp.MustCompile(`\b[rs]k_live_[0-9A-Za-z]{20,}`)},
	{"npm token", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}\b`)},
	{"model provider key", regexp.MustCompile(`\bsk-(?:ant-|proj-)[A-Za-z0-9_-]{20,}`)},
	{"service token", regexp.MustCompile(`\btok_svc_[A-Za-z0-9_-]{8,}`)},
}

// secretNames are names of files that have secrets by their purpose.
var secretNames = regexp.MustCompile(`(?i)(^|/)(id_(rsa|dsa|ecdsa|ed25519)|\.env(\.(local|production))?|\.npmrc|\.netrc|\.pypirc|` +
	`[^/]+\.(p12|pfx|jks|keystore))$`)

// secrets blocks secrets on lines that a change adds and in names. It names the kind and never the text.
func (d *diff) secrets() client.Guardrail {
	var found []client.Finding
	seen := map[client.Finding]bool{}
	add := func(path, rule string) {
		if f := (client.Finding{Path: path, Rule: rule}); !seen[f] {
			seen[f] = true
			found = append(found, f)
		}
	}
	for _, l := range d.lines {
		if !l.added {
			continue
		}
		for _, s := range secretForms {
			if s.form.MatchString(l.text) {
				add(l.path, s.name)
			}
		}
	}
	for _, c := range d.changes {
		if c.New() && secretNames.MatchString(c.Path) {
			add(c.Path, "file for secrets")
		}
		for _, s := range secretForms {
			if c.New() && s.form.MatchString(c.Path) {
				add(c.Path, s.name+" in the name")
			}
		}
	}
	g := result(Secrets, found)
	if d.tooLong {
		g.Status, g.Note = block, "the change is too long to be searched"
	}
	return g
}
