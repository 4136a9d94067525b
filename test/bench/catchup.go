package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// measureCatchUp starts a service that is n events behind, and waits until it has caught up.
func measureCatchUp(ctx context.Context, s *suite, db *pgxpool.Pool, n int) (work, error) {
	server, err := s.startRest(ctx, db.Config().ConnString())
	if err != nil {
		return work{}, err
	}
	defer server.stop()
	from := time.Now()
	err = awaitCaughtUp(ctx, db)
	return work{n, time.Since(from)}, err
}

// catchUp compares a service that starts and catches up with a million events, in one log and
// in ten thousand, with multi-row inserts of all resulting rows into the same tables with
// their indexes. Each round counts the lower of both ratios.
func catchUp(ctx context.Context, s *suite) (result, error) {
	n := scaled(rebuildEvents)
	r := result{Note: map[string]any{}}
	for range *rounds {
		lowest := 0.0
		for _, logs := range []int{1, max(1, n/100)} {
			ours, theirs, err := catchUpOnce(ctx, s, logs, n)
			if err != nil {
				return r, err
			}
			name := map[bool]string{true: "one", false: "many"}[logs == 1]
			r.Note[name], r.Note[name+"_cpu"] = int(ours.rate), ours.cpuEach.Round(100*time.Nanosecond).String()
			r.Note[name+"_inserts"], r.Note[name+"_inserts_cpu"] = int(theirs.rate), theirs.cpuEach.Round(100*time.Nanosecond).String()
			if ratio := ours.rate / theirs.rate; lowest == 0 || ratio < lowest {
				lowest = ratio
			}
		}
		r.Ratios = append(r.Ratios, lowest)
	}
	return r, ctx.Err()
}

// catchUpOnce fills logs with n events and measures both sides on them once.
func catchUpOnce(ctx context.Context, s *suite, logs, n int) (ours, theirs measurement, err error) {
	db, err := s.database(ctx)
	if err != nil {
		return ours, theirs, err
	}
	defer db.Close()
	if _, err := fillLogs(ctx, db, logs, n/logs); err != nil {
		return ours, theirs, err
	}
	if ours, err = timeTurn(func() (work, error) { return measureCatchUp(ctx, s, db, n) }); err != nil {
		return ours, theirs, err
	}
	insert, err := prepareInserts(ctx, db)
	if err != nil {
		return ours, theirs, err
	}
	theirs, err = timeTurn(func() (work, error) {
		from := time.Now()
		err := insert()
		return work{n, time.Since(from)}, err
	})
	return ours, theirs, err
}

// rowsPerInsert is the number of rows in a statement. They share a transaction.
const rowsPerInsert = 500

// A copiedTable contains the rows of a table in binary format, to be inserted into an empty
// copy of the table.
type copiedTable struct {
	name    string
	columns int
	rows    [][]byte // the values of all rows, one row after the other
}

// prepareInserts reads the rows of all tables except the log's and creates empty copies of the
// tables. The function it returns inserts the rows there over one connection, with
// synchronous_commit off as followers have it.
func prepareInserts(ctx context.Context, db *pgxpool.Pool) (insert func() error, err error) {
	sizes, err := tableSizes(ctx, db)
	if err != nil {
		return nil, err
	}
	delete(sizes, "events")
	delete(sizes, "logs")
	var list []copiedTable
	for name := range sizes {
		t, err := readTable(ctx, db, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if _, err := db.Exec(ctx, fmt.Sprintf(`create table %s_copy (like %s including all)`, name, name)); err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return func() error {
		conn, err := db.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		if _, err := conn.Exec(ctx, `set synchronous_commit = off`); err != nil {
			return err
		}
		for _, t := range list {
			if err := t.insert(ctx, conn.Conn().PgConn()); err != nil {
				return fmt.Errorf("insert into a copy of %s: %w", t.name, err)
			}
		}
		return nil
	}, nil
}

// readTable reads a table into memory.
func readTable(ctx context.Context, db *pgxpool.Pool, name string) (t copiedTable, err error) {
	rows, err := db.Query(ctx, `select * from `+name, pgx.QueryResultFormats{pgx.BinaryFormatCode})
	if err != nil {
		return t, err
	}
	defer rows.Close()
	t = copiedTable{name: name, columns: len(rows.FieldDescriptions())}
	for rows.Next() {
		for _, value := range rows.RawValues() {
			t.rows = append(t.rows, bytes.Clone(value)) // a null stays nil
		}
	}
	return t, rows.Err()
}

// insert inserts the rows, [rowsPerInsert] in a statement.
func (t copiedTable) insert(ctx context.Context, conn *pgconn.PgConn) error {
	formats := make([]int16, rowsPerInsert*t.columns)
	for i := range formats {
		formats[i] = pgx.BinaryFormatCode
	}
	for rest, prepared := t.rows, 0; len(rest) > 0; {
		n := min(rowsPerInsert*t.columns, len(rest))
		statement := fmt.Sprintf("%s_%d", t.name, n)
		if prepared != n {
			sql := fmt.Sprintf("insert into %s_copy values %s", t.name, placeholders(n/t.columns, t.columns))
			if _, err := conn.Prepare(ctx, statement, sql, nil); err != nil {
				return err
			}
			prepared = n
		}
		if _, err := conn.ExecPrepared(ctx, statement, rest[:n], formats[:n], nil).Close(); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// placeholders returns "($1, $2), ($3, $4)" for two rows of two columns.
func placeholders(rows, columns int) string {
	var tuples []string
	for row := range rows {
		var values []string
		for column := range columns {
			values = append(values, fmt.Sprintf("$%d", row*columns+column+1))
		}
		tuples = append(tuples, "("+strings.Join(values, ", ")+")")
	}
	return strings.Join(tuples, ", ")
}
