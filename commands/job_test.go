package commands_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/fault"
	"svc/test/world"
)

// A bot is a service account and its token.
type bot struct {
	id    events.ID
	name  string
	token bearer.ServiceToken
}

func (m *team) serviceAccount(t *testing.T, name string, scopes ...events.Scope) bot {
	t.Helper()
	c := create(m.owner, m.id, name, scopes...)
	_, err := m.CreateServiceAccount(t.Context(), c)
	require.NoError(t, err)
	return bot{c.Account, name, c.Token}
}

func (b bot) in(workspace events.ID) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{
		Actor: events.Actor{Type: events.ByService, ID: b.id, Name: "service:" + b.name}, Origin: events.FromAPI, RequestID: "r-1",
	}}
}

// submitCommand returns the command for a job of one step.
func submitCommand(t *testing.T, by commands.Meta, change ...func(*events.JobSpec)) commands.SubmitJob {
	t.Helper()
	s := events.JobSpec{Name: "tests", Steps: []events.JobStep{{Run: "true"}}}
	for _, f := range change {
		f(&s)
	}
	s, err := farm.CheckJob(s)
	require.NoError(t, err)
	return commands.SubmitJob{Meta: by, Job: newID(), Spec: s}
}

// submitJob submits a job as the service.
func (m *team) submitJob(t *testing.T, change ...func(*events.JobSpec)) events.ID {
	t.Helper()
	c := submitCommand(t, systems(m.id), change...)
	_, err := m.SubmitJob(t.Context(), c)
	require.NoError(t, err)
	return c.Job
}

func (m *team) stateOf(t *testing.T, job events.ID) (state events.JobState) {
	t.Helper()
	require.NoError(t, m.db.QueryRow(t.Context(), `select state from jobs where workspace_id = $1 and job_id = $2`, m.id, job).Scan(&state))
	return state
}

// Jobs may be submitted and cancelled by people whose role allows it, by a service account
// with the scope and its current token, and by the service. A refusal is recorded as a
// denial and changes nothing else, except that refusals of strangers and of invalid tokens
// are not recorded.
func TestRightToRunJobs(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	farmer, reader := m.serviceAccount(t, "farmer", events.SubmitJobs), m.serviceAccount(t, "reader", events.ReadAPI)
	revoked, rotated := m.serviceAccount(t, "revoked", events.SubmitJobs), m.serviceAccount(t, "rotated", events.SubmitJobs)
	_, err := m.RevokeServiceAccount(t.Context(), revoke(m.owner, m.id, revoked.id))
	require.NoError(t, err)
	_, err = m.RotateServiceAccount(t.Context(), rotate(m.owner, m.id, rotated.id))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		by     commands.Meta
		token  events.Fingerprint
		code   string // "" if allowed
		denied bool
	}{
		"Owner":                           {m.owner.in(m.id), events.Fingerprint{}, "", false},
		"Maintainer":                      {m.maintainer.in(m.id), events.Fingerprint{}, "", false},
		"Viewer":                          {m.viewer.in(m.id), events.Fingerprint{}, "role_required", true},
		"legacy member":                   {m.old.in(m.id), events.Fingerprint{}, "role_required", true},
		"nobody":                          {m.nobody.in(m.id), events.Fingerprint{}, fault.ErrTenantNotFound.Code, false},
		"the service":                     {systems(m.id), events.Fingerprint{}, "", false},
		"an account with the scope":       {farmer.in(m.id), farmer.token.Fingerprint(), "", false},
		"an account without the scope":    {reader.in(m.id), reader.token.Fingerprint(), "service_scope_missing", true},
		"an account with another's token": {farmer.in(m.id), reader.token.Fingerprint(), aggregates.ErrTokenInvalid.Code, false},
		"an account without a token":      {farmer.in(m.id), events.Fingerprint{}, aggregates.ErrTokenInvalid.Code, false},
		"an account that is revoked":      {revoked.in(m.id), revoked.token.Fingerprint(), aggregates.ErrTokenInvalid.Code, false},
		"a token before the last":         {rotated.in(m.id), rotated.token.Fingerprint(), aggregates.ErrTokenInvalid.Code, false},
	} {
		t.Run(name, func(t *testing.T) {
			victim, ended := m.submitJob(t), m.cancelledJob(t, m.owner.in(m.id))
			submit := submitCommand(t, c.by)
			submit.Token = c.token
			for _, ask := range []struct {
				action string
				do     func() error
				want   events.CommandDenied
			}{
				{"submit", func() error { _, err := m.other.SubmitJob(t.Context(), submit); return err },
					events.CommandDenied{Action: "job.submitted", Name: "tests", Code: c.code}},
				{"cancel", func() error {
					_, err := m.other.CancelJob(t.Context(), commands.CancelJob{Meta: c.by, Job: victim, Reason: "superseded", Token: c.token})
					return err
				}, events.CommandDenied{Action: "job.cancelled", Target: victim, Code: c.code}},
				{"retry", func() error {
					retry := retryCommand(c.by, ended)
					retry.Token = c.token
					_, err := m.other.RetryJob(t.Context(), retry)
					return err
				}, events.CommandDenied{Action: "job.submitted", Target: ended, Code: c.code}},
			} {
				before := m.head(t, m.id)
				err := ask.do()
				if c.code == "" {
					require.NoError(t, err, ask.action)
					require.Len(t, m.history(t, m.id, before+1), 1, ask.action)
					continue
				}
				require.Equal(t, c.code, fault.As(err).Code, ask.action)
				require.Empty(t, m.history(t, m.id, before+1), ask.action)
				want := []events.CommandDenied{ask.want}
				if !c.denied {
					want = nil
				}
				require.Equal(t, want, m.denials(t, m.id, before), ask.action)
			}
			want := events.JobStateQueued
			if c.code == "" {
				want = events.JobStateCancelled
				require.Equal(t, events.JobStateQueued, m.stateOf(t, submit.Job))
			}
			require.Equal(t, want, m.stateOf(t, victim))
		})
	}
}

func TestSubmitJob(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	submit := submitCommand(t, keyed(m.owner.in(m.id), "ci-1"))
	before := m.head(t, m.id)
	_, err := m.SubmitJob(t.Context(), submit)
	require.NoError(t, err)
	m.requireAdded(t, m.id, before, events.JobSubmitted{
		Spec: submit.Spec, Requirement: submit.Spec.Required().Key(), FairKey: "any", Turn: 7, ExpiresAt: epoch.Add(24 * time.Hour),
	})

	// A repetition does not ask for a position in the queue, on either replica.
	again := submit
	again.Job = newID()
	repeated, err := m.other.SubmitJob(world.WithTurn(t.Context(), 0, errors.New("asked")), again)
	require.NoError(t, err)
	require.True(t, repeated.Replayed)
	require.JSONEq(t, `{"jobId":"`+submit.Job.String()+`"}`, string(repeated.Answer))

	ofRepo := submitCommand(t, keyed(m.owner.in(m.id), "ci-2"))
	ofRepo.Spec.Repo, ofRepo.RepoName = &events.JobRepo{ID: web.ID, Ref: "refs/heads/main"}, "acme/web"
	_, err = m.SubmitJob(t.Context(), ofRepo)
	require.NoError(t, err)
	ofRepo.RepoName = "acme/site"
	repeated, err = m.SubmitJob(t.Context(), ofRepo)
	require.NoError(t, err, "it is the same request after the repository was renamed")
	require.True(t, repeated.Replayed)

	different := submit
	different.Spec.Name = "other tests"
	before = m.head(t, m.id)
	full := fault.New(fault.RateLimited, "farm_queue_full", "Full.")
	for name, c := range map[string]struct {
		ctx    context.Context
		submit commands.SubmitJob
		code   string
	}{
		"another job by the same key": {t.Context(), different, "idempotency_key_reused"},
		"an id that is taken": {t.Context(), func() commands.SubmitJob {
			s := submitCommand(t, m.owner.in(m.id))
			s.Job = submit.Job
			return s
		}(), "validation_failed"},
		"a queue that is full": {world.WithTurn(t.Context(), 0, full), submitCommand(t, m.owner.in(m.id)), "farm_queue_full"},
	} {
		_, err := m.SubmitJob(c.ctx, c.submit)
		require.NotNil(t, fault.As(err), "%s: %v", name, err)
		require.Equal(t, c.code, fault.As(err).Code, name)
	}
	require.Empty(t, m.history(t, m.id, before+1))
}

// cancelledJob returns a job that has ended.
func (m *team) cancelledJob(t *testing.T, by commands.Meta) events.ID {
	t.Helper()
	submit := submitCommand(t, by)
	_, err := m.SubmitJob(t.Context(), submit)
	require.NoError(t, err)
	_, err = m.CancelJob(t.Context(), commands.CancelJob{Meta: by, Job: submit.Job})
	require.NoError(t, err)
	return submit.Job
}

func retryCommand(by commands.Meta, job events.ID) commands.RetryJob {
	return commands.RetryJob{Meta: by, Job: job, New: newID()}
}

func TestRetryJob(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	owner := m.owner.in(m.id)
	waiting := submitCommand(t, owner)
	_, err := m.SubmitJob(t.Context(), waiting)
	require.NoError(t, err)
	_, err = m.RetryJob(t.Context(), retryCommand(owner, waiting.Job))
	require.ErrorIs(t, err, farm.ErrJobGoesOn)
	_, err = m.RetryJob(t.Context(), retryCommand(owner, newID()))
	require.ErrorIs(t, err, farm.ErrNoJob)
	_, err = m.RetryJob(t.Context(), retryCommand(owner, m.cancelledJob(t, systems(m.id))))
	require.ErrorIs(t, err, farm.ErrJobOfRun, "the service submits jobs for runs alone")

	job := m.cancelledJob(t, owner)
	retry, before := retryCommand(keyed(owner, "again"), job), m.head(t, m.id)
	_, err = m.RetryJob(world.WithTurn(t.Context(), 9, nil), retry)
	require.NoError(t, err)
	spec := submitCommand(t, owner).Spec
	m.requireAdded(t, m.id, before, events.JobSubmitted{
		Spec: spec, Requirement: spec.Required().Key(), FairKey: "any", Turn: 9, ExpiresAt: epoch.Add(24 * time.Hour), RetryOf: job,
	})
	require.Equal(t, events.JobStateQueued, m.stateOf(t, retry.New))

	again := retryCommand(keyed(owner, "again"), job)
	repeated, err := m.other.RetryJob(world.WithTurn(t.Context(), 0, errors.New("asked")), again)
	require.NoError(t, err)
	require.JSONEq(t, `{"jobId":"`+retry.New.String()+`"}`, string(repeated.Answer))
	_, err = m.RetryJob(t.Context(), retryCommand(keyed(owner, "again"), m.cancelledJob(t, owner)))
	require.ErrorIs(t, err, commands.ErrKeyReused)
	_, err = m.RetryJob(t.Context(), retryCommand(owner, retry.New))
	require.ErrorIs(t, err, farm.ErrJobGoesOn, "the retry is a job like any other")
}

func TestCancelJob(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	cancel := func(r replica, job events.ID, reason string) error {
		_, err := r.CancelJob(t.Context(), commands.CancelJob{Meta: m.owner.in(m.id), Job: job, Reason: reason})
		return err
	}
	job := m.submitJob(t)
	before := m.head(t, m.id)
	require.ErrorIs(t, cancel(m.replica, newID(), ""), farm.ErrNoJob)
	require.Equal(t, "validation_failed", fault.As(cancel(m.replica, job, bearer.NewServiceToken().Reveal())).Code, "no secret is kept")
	require.Empty(t, m.history(t, m.id, before+1))
	require.NoError(t, cancel(m.replica, job, "superseded"))
	require.NoError(t, cancel(m.other, job, "again"), "it is over, and stays as it is")
	m.requireAdded(t, m.id, before, events.JobCancelled{Reason: "superseded"})

	elsewhere := m.system.team(t)
	theirs := elsewhere.submitJob(t)
	require.ErrorIs(t, cancel(m.replica, theirs, ""), farm.ErrNoJob, "another workspace's")
	require.Equal(t, events.JobStateQueued, elsewhere.stateOf(t, theirs))
}
