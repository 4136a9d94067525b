// Package policy reads the policy file of a repository. The file belongs to whoever may merge, so it
// only takes power away from runs: it adds jobs without secrets and protected paths, and lowers
// limits.
//
//	version: 1
//	requiredJobs:
//	  - name: test
//	    steps: [{run: make test}]
//	protectedPaths: [deploy/**]
//	limits: {maxFiles: 20, maxLines: 800, rounds: 2, cents: 500}
//	instructions: docs/agents.md
package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"svc/engine/client"
	"svc/engine/guardrail"
	"svc/events"
)

// File is the path of the policy file.
const File = ".svc/loop.yaml"

// Limits of the file and of what it names.
const (
	MaxFile         = 64 << 10
	MaxInstructions = 64 << 10

	maxJobs  = 20
	maxPaths = 200
)

// Failure returns the failure of a step for an error of this package.
func Failure(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &client.Failure{Class: client.Surroundings, Code: client.CodePolicy, Message: e.Error()}
	}
	return err
}

// Merge adds the text of a policy file to the settings of the repository; "" is that of no file. Instructions is the path of
// the file that it names, "" if it names none. The error is an [*Error] if the file is wrong.
func Merge(settings client.Policy, file string) (merged client.Policy, instructions string, err error) {
	merged = settings
	merged.ProtectedPaths = slices.Clone(settings.ProtectedPaths)
	jobs, err := jobsOf(settings)
	if err != nil {
		return merged, "", err
	}
	root, err := parse(file)
	switch {
	case err != nil || file == "":
		return merged, "", err
	case root == nil:
		return merged, "", &Error{Problem: "version is missing"}
	}
	var version int
	top := fields{
		"version": func(n *yaml.Node) error {
			if err := number(&version, 1, 1<<30)(n); err != nil {
				return err
			}
			if version != 1 {
				return at(n, "version %d is not known; this is version 1", version)
			}
			return nil
		},
		"requiredJobs": each(maxJobs, func(n *yaml.Node) error {
			job, err := readJob(n, jobs)
			if err == nil && slices.ContainsFunc(jobs, func(j events.RequiredJob) bool { return j.Name == job.Name }) {
				err = at(n, "there is another required job %q", job.Name)
			}
			jobs = append(jobs, job)
			return err
		}),
		"protectedPaths": each(maxPaths, func(n *yaml.Node) error {
			var p string
			if err := text(&p, 500)(n); err != nil {
				return err
			}
			if !guardrail.ValidPattern(p) {
				return at(n, "%q is not a pattern of paths", p)
			}
			if !slices.Contains(merged.ProtectedPaths, p) {
				merged.ProtectedPaths = append(merged.ProtectedPaths, p)
			}
			return nil
		}),
		"limits": fields{
			"maxFiles": lowers(&merged.MaxFiles), "maxLines": lowers(&merged.MaxLines),
			"rounds": lowers(&merged.Rounds), "cents": lowers(&merged.Cents),
		}.read,
		"instructions": func(n *yaml.Node) error {
			if err := text(&instructions, 500)(n); err != nil {
				return err
			}
			if instructions != path.Clean(instructions) || path.IsAbs(instructions) || strings.HasPrefix(instructions, "..") {
				return at(n, "%q is not a path inside the repository", instructions)
			}
			return nil
		},
	}
	if err := top.read(root); err != nil {
		return merged, "", err
	}
	if version == 0 {
		return merged, "", at(root, "version is missing; this is version 1")
	}
	merged.RequiredJobs, err = json.Marshal(jobs)
	return merged, instructions, err
}

// lowers reads a limit, which counts if it is lower. 0 is no limit in the settings.
func lowers[T int | int64](limit *T) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		var v T
		if err := number(&v, 1, 1<<30)(n); err != nil {
			return err
		}
		if *limit == 0 || v < *limit {
			*limit = v
		}
		return nil
	}
}

func jobsOf(p client.Policy) ([]events.RequiredJob, error) {
	jobs := []events.RequiredJob{}
	if len(p.RequiredJobs) == 0 {
		return jobs, nil
	}
	if err := json.Unmarshal(p.RequiredJobs, &jobs); err != nil {
		return nil, fmt.Errorf("required jobs of the settings: %w", err)
	}
	return jobs, nil
}

var syntax = regexp.MustCompile(`line (\d+)`)

// parse returns the file's mapping, nil if the file says nothing.
func parse(file string) (*yaml.Node, error) {
	if len(file) > MaxFile {
		return nil, &Error{Problem: fmt.Sprintf("the file is larger than %d KiB", MaxFile>>10)}
	}
	decoder := yaml.NewDecoder(strings.NewReader(file))
	var doc yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		e := &Error{Problem: strings.TrimPrefix(err.Error(), "yaml: ")}
		if m := syntax.FindStringSubmatch(err.Error()); m != nil {
			_, _ = fmt.Sscan(m[1], &e.Line) // digits
			e.Column = 1
		}
		return nil, e
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &Error{Problem: "the file has more than one document"}
	}
	if len(doc.Content) != 1 {
		return nil, nil
	}
	return doc.Content[0], noAliases(doc.Content[0])
}

// SHA identifies a policy: the hex SHA-256 of its canonical JSON.
func SHA(p client.Policy) (string, error) {
	var jobs bytes.Buffer
	if err := json.Compact(&jobs, []byte(cmp.Or(string(p.RequiredJobs), "[]"))); err != nil {
		return "", fmt.Errorf("required jobs: %w", err)
	}
	p.RequiredJobs = jobs.Bytes()
	p.ProtectedPaths = slices.Sorted(slices.Values(p.ProtectedPaths))
	canonical, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("policy: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
