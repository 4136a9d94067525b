package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/http/rest/audit"
	"svc/proof"
)

// errBad says that a log is not what was signed; the report says more.
var errBad = errors.New("some records are not as they were signed")

// verify verifies the Merkle logs of all workspaces, or of one. It prints progress each second and
// one line for each workspace.
func verify(ctx context.Context, inv invocation) error {
	return inv.withDatabase(ctx, func(db *pgxpool.Pool) error { return inv.verifyLogs(ctx, db) })
}

func (inv invocation) verifyLogs(ctx context.Context, db *pgxpool.Pool) (err error) {
	key := inv.verifierKey
	if key == "" {
		if key, err = proof.PublicKey(ctx, db); err != nil {
			return err
		}
		fmt.Fprintf(inv.out, "verifier key in the database: %s\n", orNone(key))
	}
	list, err := proof.Workspaces(ctx, db)
	if err != nil {
		return err
	}
	if !inv.workspace.IsZero() {
		if !slices.Contains(list, inv.workspace) {
			return fmt.Errorf("%w: %s: it has neither a log nor a checkpoint", errBad, inv.workspace)
		}
		list = []events.ID{inv.workspace}
	}
	due, err := proof.Due(ctx, db, onlyWorkspace(inv.workspace)...)
	if err != nil {
		return err
	}
	bad := 0
	for _, workspace := range list {
		ok, err := inv.verifyLog(ctx, db, workspace, proof.Check{VerifierKey: key, Since: inv.checkpoint, Due: due[workspace]})
		if err != nil {
			return err
		}
		if !ok {
			bad++
		}
	}
	if bad > 0 {
		err = fmt.Errorf("%w: %d of %d workspaces", errBad, bad, len(list))
	}
	if inv.rows {
		err = errors.Join(err, inv.compareViews(ctx, db, list))
	}
	return err
}

// verifyLog verifies one log and prints the result.
func (inv invocation) verifyLog(ctx context.Context, db *pgxpool.Pool, workspace events.ID, c proof.Check) (ok bool, err error) {
	start := time.Now()
	c.Progress = inv.progress(workspace.String())
	report, err := proof.Verify(ctx, db, workspace, c)
	switch {
	case err != nil:
		return false, err
	case report.Bad != nil:
		fmt.Fprintf(inv.out, "%s: BAD: record %d: %s\n", workspace, report.Bad.Seq, report.Bad.Reason)
		return false, nil
	}
	fmt.Fprintf(inv.out, "%s: %d events verified in %s, root %s", workspace, report.Size,
		time.Since(start).Round(time.Millisecond), report.Root)
	if report.Unsigned > 0 {
		fmt.Fprintf(inv.out, "; %d of %d events are not signed yet, the first of %s",
			report.Unsigned, report.Head, report.UnsignedSince.Format(time.RFC3339))
	}
	for _, f := range report.Former {
		fmt.Fprintf(inv.out, "; up to record %d signed by %s, which was lost and replaced in record %d", f.UpTo, f.VerifierKey, f.ReplacedIn)
	}
	fmt.Fprintln(inv.out)
	return true, nil
}

// onlyWorkspace returns a list of one workspace, or nil, which means all.
func onlyWorkspace(workspace events.ID) []events.ID {
	if workspace.IsZero() {
		return nil
	}
	return []events.ID{workspace}
}

// verifyExport verifies an export against a kept answer of GET /audit/verify, without the service.
func verifyExport(ctx context.Context, inv invocation) error {
	text, err := os.ReadFile(inv.kept)
	if err != nil {
		return err
	}
	var kept struct{ Checkpoint, VerifierKey string }
	if err := json.Unmarshal(text, &kept); err != nil || kept.Checkpoint == "" {
		return fmt.Errorf("%s holds no answer of GET /audit/verify with a checkpoint", inv.kept)
	}
	export, err := os.Open(inv.export)
	if err != nil {
		return err
	}
	defer export.Close()
	defer context.AfterFunc(ctx, func() { _ = export.Close() })() // interrupts a read from a pipe
	report, beyond, err := proof.VerifyExport(ctx, export, kept.Checkpoint, cmp.Or(inv.verifierKey, kept.VerifierKey), audit.ExportLines())
	switch {
	case err != nil:
		return err
	case report.Bad != nil:
		return fmt.Errorf("%w: %s: record %d: %s", errBad, report.Workspace, report.Bad.Seq, report.Bad.Reason)
	}
	fmt.Fprintf(inv.out, "%s: %d records are as they were signed, %d more are not covered by the checkpoint, root %s\n",
		report.Workspace, report.Size, beyond, report.Root)
	return nil
}

func orNone(key string) string {
	if key == "" {
		return "none yet"
	}
	return key
}
