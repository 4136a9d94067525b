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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/http/rest"
	"svc/migrations"
	"svc/proof"
)

// errBad says that a log is not what was signed; the report says more.
var errBad = errors.New("some records are not as they were signed")

// verify verifies the Merkle logs of all workspaces, or of one. It prints progress each second and
// one line for each workspace.
func verify(ctx context.Context, j job) error {
	err := j.withConnection(ctx, func(conn *pgx.Conn) error { return migrations.Current(ctx, conn) })
	if err != nil {
		return err
	}
	db, err := j.pool(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	key := j.verifierKey
	if key == "" {
		if key, err = proof.PublicKey(ctx, db); err != nil {
			return err
		}
		fmt.Fprintf(j.out, "verifier key in the database: %s\n", orNone(key))
	}
	list, err := proof.Workspaces(ctx, db)
	if err != nil {
		return err
	}
	if !j.workspace.IsZero() {
		if !slices.Contains(list, j.workspace) {
			return fmt.Errorf("%w: %s: it has neither a log nor a checkpoint", errBad, j.workspace)
		}
		list = []events.ID{j.workspace}
	}
	due, err := proof.Due(ctx, db, onlyWorkspace(j.workspace)...)
	if err != nil {
		return err
	}
	bad := 0
	for _, workspace := range list {
		ok, err := j.verifyLog(ctx, db, workspace, proof.Check{VerifierKey: key, Since: j.checkpoint, Due: due[workspace]})
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
	if j.rows {
		err = errors.Join(err, j.compareViews(ctx, db, list))
	}
	return err
}

// verifyLog verifies one log and prints the result.
func (j job) verifyLog(ctx context.Context, db *pgxpool.Pool, workspace events.ID, c proof.Check) (ok bool, err error) {
	start := time.Now()
	p := newProgress(j.out, workspace.String())
	c.Progress = p.step
	report, err := proof.Verify(ctx, db, workspace, c)
	p.end()
	switch {
	case err != nil:
		return false, err
	case report.Bad != nil:
		fmt.Fprintf(j.out, "%s: BAD: record %d: %s\n", workspace, report.Bad.Seq, report.Bad.Reason)
		return false, nil
	}
	fmt.Fprintf(j.out, "%s: %d events verified in %s, root %s", workspace, report.Size,
		time.Since(start).Round(time.Millisecond), report.Root)
	if report.Unsigned > 0 {
		fmt.Fprintf(j.out, "; %d of %d events are not signed yet, the first of %s",
			report.Unsigned, report.Head, report.UnsignedSince.Format(time.RFC3339))
	}
	for _, f := range report.Former {
		fmt.Fprintf(j.out, "; up to record %d signed by %s, which was lost and replaced in record %d", f.UpTo, f.VerifierKey, f.ReplacedIn)
	}
	fmt.Fprintln(j.out)
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
func verifyExport(ctx context.Context, j job) error {
	text, err := os.ReadFile(j.kept)
	if err != nil {
		return err
	}
	var kept struct{ Checkpoint, VerifierKey string }
	if err := json.Unmarshal(text, &kept); err != nil || kept.Checkpoint == "" {
		return fmt.Errorf("%s holds no answer of GET /audit/verify with a checkpoint", j.kept)
	}
	export, err := os.Open(j.export)
	if err != nil {
		return err
	}
	defer export.Close()
	defer context.AfterFunc(ctx, func() { _ = export.Close() })() // interrupts a read from a pipe
	report, beyond, err := proof.VerifyExport(ctx, export, kept.Checkpoint, cmp.Or(j.verifierKey, kept.VerifierKey), rest.ExportLine)
	switch {
	case err != nil:
		return err
	case report.Bad != nil:
		return fmt.Errorf("%w: %s: record %d: %s", errBad, report.Workspace, report.Bad.Seq, report.Bad.Reason)
	}
	fmt.Fprintf(j.out, "%s: %d records are as they were signed, %d more are not covered by the checkpoint, root %s\n",
		report.Workspace, report.Size, beyond, report.Root)
	return nil
}

func orNone(key string) string {
	if key == "" {
		return "none yet"
	}
	return key
}

// pool opens a connection pool.
func (j job) pool(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(j.url.Reveal())
	if err != nil {
		return nil, errUnreadable // err may quote the address
	}
	db, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return db, nil
}
