package migrations

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Info writes the database's version to out, and a line for each version that the database
// or s has. It changes nothing and takes no lock: a migration that is running outside a
// transaction is shown as Failed.
//
// The states are Success, Pending, Failed, Future (applied, and newer than every file),
// Missing (applied, but without a file) and Ignored (never applied, although a newer one
// was). Times are UTC.
func (s Set) Info(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	files, err := s.load()
	if err != nil {
		return err
	}
	h, err := openHistory(ctx, conn)
	if err != nil {
		return err
	}
	rows, err := h.rows(ctx)
	if err != nil {
		return err
	}
	p := compare(files, rows)
	fmt.Fprintf(out, "%s\nSchema version: %s\n\n", databaseLine(conn), p.currentVersion())
	writeTable(out, p.lines())
	return nil
}

func (p plan) lines() [][]string {
	lines := [][]string{{"Version", "Description", "State", "Installed On", "Duration"}}
	for _, s := range p.steps {
		installed, took := "", ""
		if s.row != nil {
			installed = s.row.AppliedAt.UTC().Format(time.DateTime)
			took = clock(time.Duration(s.row.DurationMS) * time.Millisecond)
		}
		lines = append(lines, []string{fmt.Sprint(s.version), s.description, p.state(s), installed, took})
	}
	return lines
}

// writeTable writes lines as a table with a frame; the first line is the header.
func writeTable(out io.Writer, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rule := "+"
	for _, w := range widths {
		rule += strings.Repeat("-", w+2) + "+"
	}
	fmt.Fprintln(out, rule)
	for n, line := range lines {
		for i, cell := range line {
			fmt.Fprintf(out, "| %-*s ", widths[i], cell)
		}
		fmt.Fprintln(out, "|")
		if n == 0 {
			fmt.Fprintln(out, rule)
		}
	}
	fmt.Fprintln(out, rule)
}
