// Package guardrail checks what a branch changes, on git's objects: nothing that a job says is believed.
package guardrail

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"svc/engine/client"
	"svc/engine/git"
)

// The checks.
const (
	Protected  = "protected_paths"
	MaxFiles   = "max_files"
	MaxLines   = "max_lines"
	Binary     = "binary"
	Submodule  = "submodule"
	Symlink    = "symlink"
	Executable = "executable"
	Secrets    = "secrets"
	Tests      = "tests"
	Names      = "names"
)

// The statuses of a check.
const (
	pass  = "pass"
	block = "block"
	note  = "note"
)

// maxFindings is how many findings of a check are listed.
const maxFindings = 100

// A diff is what is checked.
type diff struct {
	policy  client.Policy
	changes []git.Change
	names   []string          // all paths of the head
	sizes   map[string]int64  // of blobs
	targets map[string]string // of symbolic links, by path
	lines   []line
	tooLong bool // lines is incomplete
}

// A line is a line that a change adds or removes.
type line struct {
	path  string
	added bool
	text  string
}

// Inspect checks what head changes since the commit base, from which it has grown.
func Inspect(ctx context.Context, r *git.Repository, base, head string, policy client.Policy) (client.InspectResult, error) {
	d, err := read(ctx, r, base, head)
	if err != nil {
		return client.InspectResult{}, err
	}
	d.policy = policy
	result := d.check()
	result.CommitResult = git.Summary(d.changes)
	result.Head = head
	result.Tree, err = r.Tree(ctx, head)
	return result, err
}

func read(ctx context.Context, r *git.Repository, base, head string) (*diff, error) {
	d := &diff{targets: map[string]string{}}
	var err error
	if d.changes, err = r.Difference(ctx, base, head); err != nil {
		return nil, err
	}
	if d.names, err = r.Names(ctx, head); err != nil {
		return nil, err
	}
	var blobs []string
	for _, c := range d.changes {
		if !c.Gone() && c.To != git.ModeSubmodule {
			blobs = append(blobs, c.Blob)
		}
	}
	if d.sizes, err = r.Sizes(ctx, blobs); err != nil {
		return nil, err
	}
	for _, c := range d.changes {
		if c.To == git.ModeSymlink {
			if d.targets[c.Path], err = r.Blob(ctx, c.Blob, maxTarget); err != nil && !errors.Is(err, git.ErrOutput) {
				return nil, err
			}
		}
	}
	err = r.Text(ctx, base, head, func(path string, added bool, text string) {
		d.lines = append(d.lines, line{path, added, text})
	})
	if d.tooLong = errors.Is(err, git.ErrOutput); d.tooLong {
		err = nil
	}
	return d, err
}

// check runs all checks.
func (d *diff) check() client.InspectResult {
	result := client.InspectResult{Status: "clean"}
	var blocking []client.Finding
	onlyProtected := true
	for _, check := range []func() client.Guardrail{
		d.protected, d.maxFiles, d.maxLines, d.binary, d.submodule, d.symlink, d.executable, d.secrets, d.tests, d.collisions,
	} {
		g := check()
		if g.Status == block {
			result.Status = "blocked"
			onlyProtected = onlyProtected && g.Check == Protected
			blocking = append(blocking, g.Findings...)
		}
		if len(g.Findings) > maxFindings {
			g.Note = strings.TrimSpace(fmt.Sprintf("%s (%d in all)", g.Note, len(g.Findings)))
			g.Findings = g.Findings[:maxFindings]
		}
		for i := range g.Findings {
			g.Findings[i].Path = strings.ToValidUTF8(g.Findings[i].Path, "\uFFFD")
		}
		result.Checks = append(result.Checks, g)
	}
	if result.Status == "blocked" {
		result.MayAllow = onlyProtected && d.policy.MayAllowOnce
		result.ChangeKey = d.key(blocking)
	}
	return result
}

// key identifies the content of the paths that findings name.
func (d *diff) key(findings []client.Finding) string {
	paths := map[string]bool{}
	for _, f := range findings {
		paths[f.Path] = true
	}
	var list []string
	for _, c := range d.changes {
		if paths[c.Path] || paths[strings.ToValidUTF8(c.Path, "\uFFFD")] {
			list = append(list, c.Path+"\x00"+c.To+"\x00"+c.Blob+"\n")
		}
	}
	slices.Sort(list)
	sum := sha256.Sum256([]byte(strings.Join(list, "")))
	return hex.EncodeToString(sum[:])
}

// result returns a check that blocks if there are findings.
func result(check string, findings []client.Finding) client.Guardrail {
	g := client.Guardrail{Check: check, Status: pass, Findings: findings}
	if len(findings) > 0 {
		g.Status = block
	}
	return g
}

func (d *diff) maxFiles() client.Guardrail {
	g := client.Guardrail{Check: MaxFiles, Status: pass, Note: count(len(d.changes), "file", d.policy.MaxFiles)}
	if d.policy.MaxFiles > 0 && len(d.changes) > d.policy.MaxFiles {
		g.Status = block
	}
	return g
}

func (d *diff) maxLines() client.Guardrail {
	n := 0
	for _, c := range d.changes {
		n += c.Added + c.Removed
	}
	g := client.Guardrail{Check: MaxLines, Status: pass, Note: count(n, "line", d.policy.MaxLines)}
	if d.policy.MaxLines > 0 && n > d.policy.MaxLines {
		g.Status = block
	}
	return g
}

// count returns a note such as "97 of 1500 lines".
func count(n int, what string, limit int) string {
	if limit > 0 {
		return fmt.Sprintf("%d of %d %ss", n, limit, what)
	}
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

const maxBlob = 1 << 20

func (d *diff) binary() client.Guardrail {
	var found []client.Finding
	for _, c := range d.changes {
		if c.Binary && d.sizes[c.Blob] > maxBlob {
			found = append(found, client.Finding{Path: c.Path, Rule: fmt.Sprintf("binary file of %d KiB", d.sizes[c.Blob]>>10)})
		}
	}
	return result(Binary, found)
}

func (d *diff) submodule() client.Guardrail {
	var found []client.Finding
	for _, c := range d.changes {
		if c.To == git.ModeSubmodule || c.From == git.ModeSubmodule {
			found = append(found, client.Finding{Path: c.Path, Rule: "submodule"})
		}
	}
	return result(Submodule, found)
}

func (d *diff) executable() client.Guardrail {
	g := client.Guardrail{Check: Executable, Status: pass}
	for _, c := range d.changes {
		if c.To == git.ModeExecutable && c.From != git.ModeExecutable {
			rule := "new executable file"
			if !c.New() {
				rule = "became executable"
			}
			g.Status = note
			g.Findings = append(g.Findings, client.Finding{Path: c.Path, Rule: rule})
		}
	}
	return g
}
