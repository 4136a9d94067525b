// Package jobinput stores the files that jobs of runs receive. A file is stored before its job is
// submitted; the log says which digest it has, so a row that somebody has changed is not delivered.
package jobinput

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// MaxBytes is how large an input can be.
const MaxBytes = 1 << 20

// ErrTooLarge says that an input is larger than [MaxBytes].
var ErrTooLarge = fmt.Errorf("the input of a job is larger than %d bytes", MaxBytes)

// ErrMissing says that a job's input is not there, or is another one than the log says.
var ErrMissing = errors.New("the input of the job is missing, or was changed")

// Inputs are the inputs of all jobs. Its methods may be called concurrently.
type Inputs struct {
	DB  *pgxpool.Pool
	Now func() time.Time
}

// Sum returns the digest of an input, as a job's specification names it.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put stores the input of a job that is about to be submitted, and returns its digest. Another input
// of the job is replaced.
func (i Inputs) Put(ctx context.Context, workspace, job events.ID, data []byte) (sum string, err error) {
	if len(data) > MaxBytes {
		return "", ErrTooLarge
	}
	digest := sha256.Sum256(data)
	_, err = i.DB.Exec(ctx, `
		insert into job_inputs (workspace_id, job_id, sha256, data, created_at) values ($1, $2, $3, $4, $5)
		on conflict (workspace_id, job_id) do update
		set sha256 = excluded.sha256, data = excluded.data, created_at = excluded.created_at`,
		workspace, job, digest[:], data, i.Now())
	if err != nil {
		return "", fmt.Errorf("store the input of job %s: %w", job, err)
	}
	return hex.EncodeToString(digest[:]), nil
}

// Read returns the input of a job that has the digest sum, and ErrMissing if there is none.
func (i Inputs) Read(ctx context.Context, workspace, job events.ID, sum string) (data []byte, err error) {
	err = i.DB.QueryRow(ctx, `select data from job_inputs where workspace_id = $1 and job_id = $2`, workspace, job).Scan(&data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ErrMissing
	case err != nil:
		return nil, fmt.Errorf("read the input of job %s: %w", job, err)
	}
	digest := sha256.Sum256(data)
	if want, err := hex.DecodeString(sum); err != nil || !bytes.Equal(digest[:], want) {
		return nil, ErrMissing
	}
	return data, nil
}

// RemoveOld removes up to limit inputs that were stored before a time, the oldest first, and returns
// how many it removed.
func (i Inputs) RemoveOld(ctx context.Context, before time.Time, limit int) (n int, err error) {
	rows, _ := i.DB.Query(ctx, `select workspace_id, job_id from job_inputs where created_at < $1 order by created_at limit $2`, before, limit)
	type ref struct{ Workspace, Job events.ID }
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ref])
	if err != nil {
		return 0, fmt.Errorf("look for old inputs of jobs: %w", err)
	}
	for _, r := range list {
		_, err := i.DB.Exec(ctx, `delete from job_inputs where workspace_id = $1 and job_id = $2 and created_at < $3`, r.Workspace, r.Job, before)
		if err != nil {
			return n, fmt.Errorf("remove the input of job %s: %w", r.Job, err)
		}
		n++
	}
	return n, nil
}
