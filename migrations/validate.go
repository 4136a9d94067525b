package migrations

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A refusal is an error worded as Flyway words it, for operators who know Flyway.
type refusal string

func (r refusal) Error() string { return string(r) }

// advice ends every refusal because of differences between files and history. Flyway would
// offer to repair the history; here that is never the answer.
const advice = "The database was migrated by another build than this one. " +
	"Run the svc-db image that matches the deployment. " +
	"Never edit an applied migration and never repair the history; if unsure, restore the backup."

// Current returns an error unless the database is as s makes it: its history
// matches the files, neither side has a version that the other lacks, and tables are
// plain tables. It changes nothing.
func (s Set) Current(ctx context.Context, conn *pgx.Conn) error {
	state, err := s.State(ctx, conn)
	if err == nil && state.Standing != Same {
		err = refusal(state.Text)
	}
	return err
}

// A Standing is the relation of a database's schema to a build.
type Standing int

// The standings.
const (
	Same      Standing = iota
	Older              // some or all migrations are missing
	Newer              // another build has applied migrations that this one does not have
	Different          // the history does not match the files
	Altered            // the history matches the files, but somebody has altered tables
)

// A State describes a database's schema. Text says what a Standing other than Same means
// and what to do.
type State struct {
	Standing Standing
	Text     string
}

// State compares the database of conn with s. It changes nothing.
func (s Set) State(ctx context.Context, conn *pgx.Conn) (state State, err error) {
	files, err := s.load()
	if err != nil {
		return state, err
	}
	h, err := openHistory(ctx, conn)
	if err != nil {
		return state, err
	}
	rows, err := h.rows(ctx)
	if err != nil {
		return state, err
	}
	p := compare(files, rows)
	waiting := p.pending()
	if err := p.validate(h); err != nil {
		return State{Different, err.Error()}, nil
	}
	switch {
	case p.newer():
		return State{Newer, p.newerThanFiles(h)}, nil
	case len(waiting) > 0:
		return State{Older, fmt.Sprintf("Schema %q lacks %s, from version %d on. Run svc-db migrate first.", h.schema,
			count(len(waiting)), waiting[0].version)}, nil
	}
	altered, err := h.alterations(ctx, tablesOf(files))
	if err != nil {
		return state, err
	}
	if len(altered) > 0 {
		return State{Altered, alteredText(altered)}, nil
	}
	return State{}, nil
}

// newer reports whether the database has a version newer than every file.
func (p plan) newer() bool { return p.current > p.newestFile }

func (p plan) newerThanFiles(h *history) string {
	return fmt.Sprintf("Schema %q has a version (%d) that is newer than the latest available migration (%d) ! "+
		"Nothing is applied. Run the svc-db image that matches the deployment.", h.schema, p.current, p.newestFile)
}

// validate returns an error that lists everything that has to be settled before migrations
// are applied. A version newer than every file is not an error here.
func (p plan) validate(h *history) error {
	var differences, failures []string
	for _, s := range p.steps {
		switch p.state(s) {
		case success:
			differences = append(differences, s.mismatches()...)
		case missing:
			differences = append(differences,
				fmt.Sprintf("Detected applied migration not resolved locally: %d (%s)", s.version, s.description))
		case ignored:
			differences = append(differences,
				fmt.Sprintf("Detected resolved migration not applied to database: %d (%s)", s.version, s.description))
		case failed:
			failures = append(failures, s.leftover(h))
		}
	}
	if len(differences) > 0 {
		differences = append(differences, advice)
	}
	problems := append(failures, differences...)
	if len(problems) == 0 {
		return nil
	}
	return refusal("Validate failed: Migrations have failed validation\n" + strings.Join(problems, "\n"))
}

func (s step) mismatches() []string {
	var found []string
	if s.row.Checksum != s.file.checksum {
		found = append(found, mismatch("checksum", s.version, s.row.Checksum, s.file.checksum))
	}
	if s.row.Description != s.file.description {
		found = append(found, mismatch("description", s.version, s.row.Description, s.file.description))
	}
	return found
}

func mismatch(what string, version int, applied, local any) string {
	return fmt.Sprintf("Migration %s mismatch for migration version %d\n-> Applied to database : %v\n-> Resolved locally : %v",
		what, version, applied, local)
}

// leftover says what to do about a migration that failed outside a transaction, the only
// kind that leaves a failed row.
func (s step) leftover(h *history) string {
	return fmt.Sprintf("Detected failed migration to version %d (%s). Schema %q contains a failed migration to version %d !\n"+
		"It ran outside a transaction and may have left something half done, such as an invalid index. "+
		"Restore the backup; or remove what it left by hand, then run\n"+
		"  delete from %s where version = %d and not success;\n"+
		"and start again.",
		s.version, s.description, h.schema, s.version, h.table, s.version)
}
