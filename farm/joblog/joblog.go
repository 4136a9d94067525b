// Package joblog reads the logs of jobs, also while they grow.
//
// A log is the output of one epoch of a job. It is stored in the chunks that the runner sent, each
// with the time at which it was written. Whoever appends to a log in this process calls
// [Logs.Moved]; a [Watch] notices what other processes append within a second.
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
	"svc/fault"
)

const (
	pollEvery   = time.Second // how often watched logs are checked
	pageRows    = 512         // chunks per query
	pollTimeout = 10 * time.Second
)

// Logs reads the logs of all jobs. Its methods may be called concurrently.
type Logs struct {
	db  *pgxpool.Pool
	log *slog.Logger

	mu      sync.Mutex
	watched map[key]*watchedLog
}

// New returns Logs. Its watches notice what other processes append only while [Logs.Run] runs.
func New(db *pgxpool.Pool, log *slog.Logger) *Logs {
	return &Logs{db: db, log: log, watched: map[key]*watchedLog{}}
}

// A Chunk is a piece of a log.
type Chunk struct {
	Offset int64     // of the first byte
	Line   int64     // line number of the first byte, from 1; 0 if unknown
	At     time.Time // when the job wrote it, by the runner's clock
	Data   []byte
}

// End returns the offset after the chunk.
func (c Chunk) End() int64 { return c.Offset + int64(len(c.Data)) }

// Read returns up to maxBytes of an epoch's log from a byte on. It may return fewer bytes than
// there are, but returns nothing only at the end of the log, which has no gaps.
func (l *Logs) Read(ctx context.Context, workspace, job events.ID, epoch int, from int64, maxBytes int) (list []Chunk, err error) {
	rows, err := l.db.Query(ctx, `
		select from_byte, coalesce(line, 0), at, data from job_logs
		where workspace_id = $1 and job_id = $2 and epoch = $3 and from_byte >= coalesce((
			select max(from_byte) from job_logs where workspace_id = $1 and job_id = $2 and epoch = $3 and from_byte <= $4), 0)
		and from_byte < $4 + $5
		order by from_byte limit $6`, workspace, job, epoch, from, int64(maxBytes), pageRows)
	if err != nil {
		return nil, fmt.Errorf("read log of %s: %w", job, err)
	}
	defer rows.Close()
	for maxBytes > 0 && rows.Next() {
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
		c.At, c.Data = c.At.UTC(), c.Data[:min(len(c.Data), maxBytes)]
		maxBytes -= len(c.Data)
		list = append(list, c)
	}
	rows.Close()
	err = rows.Err()
	return list, fault.Wrap(err, "read log of %s", job)
}

// Tail returns the last n bytes of an epoch's log, or all of it if it has fewer.
func (l *Logs) Tail(ctx context.Context, workspace, job events.ID, epoch, n int) (text []byte, err error) {
	size, err := l.Size(ctx, workspace, job, epoch)
	if err != nil {
		return nil, err
	}
	for from := max(0, size-int64(n)); from < size; {
		list, err := l.Read(ctx, workspace, job, epoch, from, int(size-from))
		if err != nil || len(list) == 0 { // it is removed meanwhile
			return text, err
		}
		for _, c := range list {
			text, from = append(text, c.Data...), c.End()
		}
	}
	return text, nil
}

// Size returns the size in bytes of an epoch's log.
func (l *Logs) Size(ctx context.Context, workspace, job events.ID, epoch int) (int64, error) {
	sizes, err := l.Sizes(ctx, workspace, map[events.ID]int{job: epoch})
	return sizes[job].Bytes, err
}

// A Size is how much of a log is stored.
type Size struct {
	Bytes     int64
	Truncated bool // nothing more is stored, because of a limit
}

// Sizes returns the sizes of the logs of jobs, each of the given epoch. Jobs are left out of whose logs
// nothing was stored, unless it was refused because of a limit.
func (l *Logs) Sizes(ctx context.Context, workspace events.ID, epochs map[events.ID]int) (map[events.ID]Size, error) {
	var jobs []events.ID
	var numbers []int
	for job, epoch := range epochs {
		jobs, numbers = append(jobs, job), append(numbers, epoch)
	}
	rows, _ := l.db.Query(ctx, `
		select * from (
			select k.job_id,
				coalesce((
					select from_byte + octet_length(data) from job_logs
					where workspace_id = $1 and job_id = k.job_id and epoch = k.epoch order by from_byte desc limit 1), 0) as size,
				exists (select from job_leases where workspace_id = $1 and job_id = k.job_id and epoch = k.epoch and truncated) as cut
			from unnest($2::uuid[], $3::int[]) as k (job_id, epoch)) l
		where size > 0 or cut`, workspace, jobs, numbers)
	sizes := make(map[events.ID]Size, len(epochs))
	var job events.ID
	var size Size
	_, err := pgx.ForEachRow(rows, []any{&job, &size.Bytes, &size.Truncated}, func() error {
		sizes[job] = size
		return nil
	})
	return sizes, fault.Wrap(err, "read sizes of logs of %s", workspace)
}
