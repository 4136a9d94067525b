package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"svc/config"
	"svc/dev/codehost"
	"svc/engine/client"
	"svc/events"
)

const (
	commitFiles  = 10_000
	changedFiles = 50
)

// stepCommit compares the engine's step that commits a change of 50 files among 10,000 with git apply, commit-tree and push
// by hand.
func stepCommit(ctx context.Context, s *suite) (result, error) {
	big := codehost.Repository{
		Name: "acme/big", Author: "Bench <bench@example.org>", At: time.Now(), Message: "Begin", Files: map[string][]byte{},
	}
	for i := range commitFiles {
		big.Files[bigFile(i)] = []byte(fmt.Sprintf("one %d\ntwo\nthree\n", i))
	}
	l, err := s.newLoopStack(ctx, []codehost.Repository{big})
	if err != nil {
		return result{}, err
	}
	defer l.stop()
	byHand, err := newHandmade(ctx, l.file("handmade"), l.codeHost, big.Name)
	if err != nil {
		return result{}, err
	}
	parent, err := byHand.git(ctx, "", "rev-parse", "main")
	if err != nil {
		return result{}, err
	}
	step := client.Step{Workspace: events.NewID(time.Now()).String(), Seconds: 60, Repository: client.Repository{
		ID: "big", Kind: string(events.HostGitHub), Name: big.Name, API: "http://" + l.codeHost + "/api/v3", Clone: byHand.clone,
		Credential: client.Credential{Token: pushToken},
	}}
	at, err := config.ParseURL("http://" + l.engine.addr)
	if err != nil {
		return result{}, err
	}
	engine := client.Client{URL: at, Secret: secret}
	n, m := 0, 0
	return compareTimes(ctx,
		func() (work, error) {
			return times(commitsInTurn, func() error {
				n++
				_, err := client.Do[client.CommitInput, client.CommitResult](ctx, engine, client.StepCommit, step, client.CommitInput{
					Parent: parent, Branch: fmt.Sprintf("run/ours%d", n), Message: "change", Author: "a <a@example.org>", At: time.Now(),
				}, strings.NewReader(bigPatch(n)), nil)
				return err
			})
		},
		func() (work, error) {
			return times(commitsInTurn, func() error {
				m++
				s := &script{handmade: byHand, ctx: ctx}
				s.commit(bigPatch(m), fmt.Sprintf("run/theirs%d", m))
				return s.err
			})
		})
}

const commitsInTurn = 10

func bigFile(i int) string { return fmt.Sprintf("d%d/e%d/f%d.txt", i%20, i%400, i) }

// bigPatch returns a patch of changedFiles files.
func bigPatch(n int) string {
	var patch bytes.Buffer
	for i := range changedFiles {
		file := i * (commitFiles / changedFiles)
		fmt.Fprintf(&patch, "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -1,3 +1,4 @@\n one %[2]d\n two\n+change %[3]d\n three\n",
			bigFile(file), file, n)
	}
	return patch.String()
}
