package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events/bus"
	"svc/projections"
	"svc/projections/rebuild"
	"svc/sessions"
)

// export compares an export of the audit log over HTTP with a COPY of the same events. MiB
// is the growth of the service's memory to its peak during an export.
func export(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	w, cookie, err := newAuditLog(ctx, db, scaled(1_000_000))
	if err != nil {
		return result{}, err
	}
	server, err := s.startRest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	if err := awaitFollowers(ctx, db); err != nil {
		return result{}, err
	}
	var grown []float64
	r, err := compare(ctx,
		func() (work, error) {
			before, err := server.memory()
			if err != nil {
				return work{}, err
			}
			if err := server.resetPeakMemory(); err != nil {
				return work{}, err
			}
			exported, err := readExport(ctx, server.addr, cookie)
			if err != nil {
				return work{}, err
			}
			peak, err := server.peakMemory()
			grown = append(grown, peak-before)
			return exported, err
		},
		func() (work, error) { return copyOut(ctx, db, w) })
	if err == nil {
		r.Note["MiB"] = int(median(grown[1:]))
		r.Note["first_MiB"] = int(grown[0])
	}
	return r, err
}

// newAuditLog creates a workspace whose log has n events and a few more, rebuilds all views
// from it, and returns a session cookie of its Owner.
func newAuditLog(ctx context.Context, db *pgxpool.Pool, n int) (*workspace, *http.Cookie, error) {
	log := newLog(db, notifyNobody)
	defer log.Close()
	w, err := newWorkspace(ctx, commands.New(log, time.Now))
	if err != nil {
		return nil, nil, err
	}
	if err := fillLog(ctx, db, w.id, n); err != nil {
		return nil, nil, fmt.Errorf("fill log: %w", err)
	}
	if err := rebuild.Views(ctx, db, projections.Followed(), rebuild.Options{}); err != nil {
		return nil, nil, err
	}
	_, err = db.Exec(ctx, `
		insert into checkpoints (workspace_id, view, seq) select workspace_id, $1, head from logs
		on conflict (workspace_id, view) do update set seq = excluded.seq`, bus.FollowerName) // the bus would compete with the export
	if err != nil {
		return nil, nil, err
	}
	for _, sql := range []string{`vacuum analyze events`, `vacuum analyze audit`, `checkpoint`} {
		if _, err := db.Exec(ctx, sql); err != nil {
			return nil, nil, err
		}
	}
	people := &sessions.Store{DB: db, Secret: []byte(secret), Now: time.Now, Log: slog.Default()}
	session, err := people.Start(ctx, w.owner.ID, w.id, "203.0.113.7", "bench")
	return w, people.Cookie(session), err
}

// awaitFollowers waits until views, proof and bus have reached the head of every log.
func awaitFollowers(ctx context.Context, db *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		var behind bool
		err := db.QueryRow(ctx, `
			select exists (select from logs l cross join unnest($1::text[]) v (view)
				left join checkpoints c on c.workspace_id = l.workspace_id and c.view = v.view where l.head > coalesce(c.seq, 0))`,
			[]string{"runs", "audit", "proof", bus.FollowerName}).Scan(&behind)
		if err != nil {
			return fmt.Errorf("wait for the followers: %w", err)
		}
		if !behind {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// readExport reads a whole export.
func readExport(ctx context.Context, addr string, cookie *http.Cookie) (work, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/api/v1/audit/export?format=ndjson", nil)
	if err != nil {
		return work{}, err
	}
	req.AddCookie(cookie)
	from := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return work{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return work{}, fmt.Errorf("export: status %d: %s", res.StatusCode, text)
	}
	records := &lineCounter{}
	if _, err := io.Copy(records, res.Body); err != nil {
		return work{}, fmt.Errorf("export: %w", err)
	}
	return work{records.n, time.Since(from)}, nil
}

// copyOut reads the events of a workspace by COPY.
func copyOut(ctx context.Context, db *pgxpool.Pool, w *workspace) (work, error) {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return work{}, err
	}
	defer conn.Release()
	rows := &lineCounter{}
	from := time.Now()
	_, err = conn.Conn().PgConn().CopyTo(ctx, rows, fmt.Sprintf(`copy (
		select * from events where workspace_id = '%s' order by seq) to stdout`, w.id))
	if err != nil {
		return work{}, fmt.Errorf("copy to stdout: %w", err)
	}
	return work{rows.n, time.Since(from)}, nil
}

// lineCounter counts the lines that are written to it.
type lineCounter struct{ n int }

func (l *lineCounter) Write(text []byte) (int, error) {
	l.n += bytes.Count(text, []byte{'\n'})
	return len(text), nil
}

// resetPeakMemory makes the kernel measure the peak of the process's memory from now on.
func (r *serviceProcess) resetPeakMemory() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.command.Process.Pid), []byte("5"), 0)
}
