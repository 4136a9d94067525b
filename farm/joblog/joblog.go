// Package joblog reads the logs of jobs, also while they grow.
//
// A log is a row of bytes for each epoch of a job, in the pieces in which the runner sent
// them, each with the time at which it was written. Whoever adds to one in this process
// says so by [Logs.Moved]; what other processes add a [Watch] sees within a second.
package joblog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	poll      = time.Second // how often watched logs are looked at
	pageRows  = 512         // pieces that are read at once
	lookLimit = 10 * time.Second
)

// Logs are those of all jobs. Its methods may be called concurrently.
type Logs struct {
	db  *pgxpool.Pool
	log *slog.Logger

	mu      sync.Mutex
	watched map[key]*watched
}

// New returns logs that see what others add once they run.
func New(db *pgxpool.Pool, log *slog.Logger) *Logs {
	return &Logs{db: db, log: log, watched: map[key]*watched{}}
}

// A Chunk is a piece of a log.
type Chunk struct {
	Offset int64     // of its first byte
	Line   int64     // that its first byte is in, from 1; 0 if it is not known
	At     time.Time // when the job wrote it, by the clock of its runner
	Data   []byte
}

// End is the offset of what follows.
func (c Chunk) End() int64 { return c.Offset + int64(len(c.Data)) }

// Read returns the log of an epoch from a byte on, up to most bytes of it: fewer if it
// has come so far, or is in many pieces. At its end it returns nothing.
func (l *Logs) Read(ctx context.Context, workspace, job events.ID, epoch int, from int64, most int) (list []Chunk, err error) {
	rows, err := l.db.Query(ctx, `
		select from_byte, coalesce(line, 0), at, data from job_logs where workspace_id = $1 and job_id = $2 and epoch = $3 and from_byte >= coalesce((
			select max(from_byte) from job_logs where workspace_id = $1 and job_id = $2 and epoch = $3 and from_byte <= $4), 0)
		order by from_byte limit $5`, workspace, job, epoch, from, pageRows)
	if err != nil {
		return nil, fmt.Errorf("read log of %s: %w", job, err)
	}
	defer rows.Close()
	for most > 0 && rows.Next() {
		var c Chunk
		if err := rows.Scan(&c.Offset, &c.Line, &c.At, &c.Data); err != nil {
			return nil, fmt.Errorf("read log of %s: %w", job, err)
		}
		if c.End() <= from {
			continue
		}
		if cut := from - c.Offset; cut > 0 {
			if c.Line > 0 {
				c.Line += int64(bytes.Count(c.Data[:cut], []byte{'\n'}))
			}
			c.Offset, c.Data = from, c.Data[cut:]
		}
		c.At, c.Data = c.At.UTC(), c.Data[:min(len(c.Data), most)]
		most -= len(c.Data)
		list = append(list, c)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read log of %s: %w", job, err)
	}
	return list, nil
}

// Size returns how many bytes the log of an epoch has.
func (l *Logs) Size(ctx context.Context, workspace, job events.ID, epoch int) (int64, error) {
	sizes, err := l.Sizes(ctx, workspace, map[events.ID]int{job: epoch})
	return sizes[job], err
}

// Sizes returns how many bytes the logs of jobs have, each of the epoch that is asked for.
// One that has none is left out.
func (l *Logs) Sizes(ctx context.Context, workspace events.ID, epochs map[events.ID]int) (map[events.ID]int64, error) {
	var jobs []events.ID
	var numbers []int
	for job, epoch := range epochs {
		jobs, numbers = append(jobs, job), append(numbers, epoch)
	}
	rows, _ := l.db.Query(ctx, `
		select k.job_id, l.size from unnest($2::uuid[], $3::int[]) as k (job_id, epoch) cross join lateral (
			select from_byte + octet_length(data) as size from job_logs
			where workspace_id = $1 and job_id = k.job_id and epoch = k.epoch order by from_byte desc limit 1) l`, workspace, jobs, numbers)
	sizes := make(map[events.ID]int64, len(epochs))
	var job events.ID
	var size int64
	_, err := pgx.ForEachRow(rows, []any{&job, &size}, func() error {
		sizes[job] = size
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sizes of logs of %s: %w", workspace, err)
	}
	return sizes, nil
}
