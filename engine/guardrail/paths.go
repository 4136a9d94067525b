package guardrail

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"svc/engine/client"
	"svc/engine/git"
)

// alwaysProtected are the paths that are protected whatever the policy says: they decide what hosts and
// tools do with the rest.
var alwaysProtected = []string{
	".github/**", ".gitlab-ci.yml", ".gitea/**", "CODEOWNERS", "**/CODEOWNERS", "**/migrations/**", "LICENSE*", ".svc/**",
	".gitattributes", "**/.gitattributes", ".gitmodules", ".lfsconfig",
}

// ValidPattern reports whether a pattern of paths is well-formed.
func ValidPattern(pattern string) bool {
	return pattern != "" && len(pattern) <= 500 && doublestar.ValidatePattern(folded(pattern))
}

// folded returns a path as systems might see it that ignore case, forms of the same letter, and
// characters that are not shown.
func folded(name string) string {
	shown := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, name)
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(shown)))
}

// protectedBy returns the pattern that protects a path, "" if none does.
func (d *diff) protectedBy(name string) string {
	for _, list := range [][]string{alwaysProtected, d.policy.ProtectedPaths} {
		for _, pattern := range list {
			if matches(pattern, name) || matches(folded(pattern), folded(name)) {
				return pattern
			}
		}
	}
	return ""
}

// matches reports whether a pattern matches a path or, if it ends with a slash, a folder of it.
func matches(pattern, name string) bool {
	pattern = strings.TrimPrefix(pattern, "/")
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	ok, err := doublestar.Match(pattern, name)
	return ok && err == nil
}

func (d *diff) protected() client.Guardrail {
	var found []client.Finding
	for _, c := range d.changes {
		if rule := d.protectedBy(c.Path); rule != "" {
			found = append(found, client.Finding{Path: c.Path, Rule: rule})
		}
	}
	return result(Protected, found)
}

// maxTarget bounds the target of a symbolic link.
const maxTarget = 4096

// symlink blocks links that lead out of the repository or into protected paths, and notes others.
func (d *diff) symlink() client.Guardrail {
	var bad, other []client.Finding
	for _, c := range d.changes {
		if c.To != git.ModeSymlink {
			continue
		}
		target := d.targets[c.Path]
		to := path.Join(path.Dir(c.Path), target)
		switch rule := d.protectedBy(to); {
		case target == "" || strings.HasPrefix(target, "/") || strings.Contains(target, `\`) || to == ".." || strings.HasPrefix(to, "../"):
			bad = append(bad, client.Finding{Path: c.Path, Rule: "symbolic link that leaves the repository"})
		case slices.ContainsFunc(strings.Split(to, "/"), func(name string) bool { return strings.EqualFold(name, ".git") }):
			bad = append(bad, client.Finding{Path: c.Path, Rule: "symbolic link into .git"})
		case rule != "" || d.protectedBy(to+"/x") != "":
			bad = append(bad, client.Finding{Path: c.Path, Rule: "symbolic link into a protected path"})
		default:
			other = append(other, client.Finding{Path: c.Path, Rule: "symbolic link"})
		}
	}
	g := result(Symlink, bad)
	if bad == nil && other != nil {
		g.Status, g.Findings = note, other
	}
	return g
}

// collisions blocks new names that some systems cannot tell from others, such as Readme.md beside
// README.md.
func (d *diff) collisions() client.Guardrail {
	wanted := map[string][]string{} // folded prefix of a new path: the prefixes that there are
	for _, c := range d.changes {
		if c.New() {
			for _, p := range prefixes(c.Path) {
				wanted[folded(p)] = nil
			}
		}
	}
	if len(wanted) == 0 {
		return result(Names, nil)
	}
	seen := map[string]bool{}
	for _, name := range d.names {
		for _, p := range prefixes(name) {
			if seen[p] {
				continue
			}
			seen[p] = true
			if key := folded(p); has(wanted, key) {
				wanted[key] = append(wanted[key], p)
			}
		}
	}
	var found []client.Finding
	for _, c := range d.changes {
		if !c.New() {
			continue
		}
		for _, p := range prefixes(c.Path) {
			if other := differing(wanted[folded(p)], p); other != "" {
				found = append(found, client.Finding{Path: c.Path, Rule: foldRule(p, other) + ": " + other})
				break
			}
		}
	}
	return result(Names, found)
}

func has(m map[string][]string, key string) bool {
	_, ok := m[key]
	return ok
}

func differing(list []string, name string) string {
	for _, other := range list {
		if other != name {
			return other
		}
	}
	return ""
}

func foldRule(a, b string) string {
	if strings.EqualFold(a, b) {
		return "case_fold"
	}
	return "unicode_fold"
}

// prefixes returns the folders of a path, outermost first, and the path.
func prefixes(name string) []string {
	var list []string
	for i := range len(name) {
		if name[i] == '/' {
			list = append(list, name[:i])
		}
	}
	return append(list, name)
}
