package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands/bearer"
	"svc/commands/work"
	"svc/events"
	"svc/fault"
	"svc/input"
)

// MintEnrollment creates an enrollment, with a token that lets one machine, or several, become runners.
// The caller has generated the token, which is shown once, and the workspace's authority.
type MintEnrollment struct {
	Meta            `json:"-"`
	Enrollment      events.ID               `json:"-"`
	Token           bearer.EnrollmentToken  `json:"-"`
	Authority       events.AuthorityCreated `json:"-"`
	Name            string                  `json:"name"`
	Labels          []string                `json:"labels"`
	ExclusiveLabels []string                `json:"exclusiveLabels"`
	CapacityLimit   int                     `json:"capacityLimit"`
	Jobs            int                     `json:"jobs"`
	Lasts           time.Duration           `json:"lasts"`
	Uses            int                     `json:"uses,omitempty"` // machines; 0 is one
}

func (c MintEnrollment) denial() events.CommandDenied {
	e := denialOf(events.EnrollmentMinted{}, events.ID{})
	if input.RunnerName.Fits(c.Name) && !input.HasToken(c.Name) {
		e.Name = c.Name
	}
	return e
}

func (MintEnrollment) limit() *limit { return enrollments }

// MintEnrollment refuses callers who may not manage runners; so do the other commands here
// that people issue. It records the workspace's authority if it is new.
func (h *Handler) MintEnrollment(ctx context.Context, c MintEnrollment) (Result, error) {
	return h.Execute(ctx, c.Meta, c, func(w *work.Unit) error {
		if err := allow(w, events.ManageRunners); err != nil {
			return err
		}
		if err := recordAuthority(w, c.Authority); err != nil {
			return err
		}
		enrollment, err := work.Load[farm.Enrollment](w, c.Enrollment)
		if err != nil {
			return err
		}
		w.Claim(events.Claim{Key: events.EnrollmentKey(c.Token.Fingerprint()), Owner: c.Enrollment, Global: true}, nil)
		list, err := enrollment.Mint(events.EnrollmentMinted{
			Enrollment: c.Enrollment, Name: c.Name, Labels: c.Labels, ExclusiveLabels: c.ExclusiveLabels,
			CapacityLimit: c.CapacityLimit, Jobs: c.Jobs, Uses: c.Uses, ExpiresAt: w.Now.Add(c.Lasts),
			Fingerprint: c.Token.Fingerprint(), Tail: c.Token.Tail(),
		}, w.Now)
		return w.AddEvents(c.Enrollment, list, err)
	})
}

// recordAuthority records an authority of the workspace, unless it is known.
func recordAuthority(w *work.Unit, a events.AuthorityCreated) error {
	authority, err := work.Load[farm.Authority](w, events.AuthorityStream)
	if err != nil {
		return err
	}
	list, err := authority.Create(a)
	return w.AddEvents(events.AuthorityStream, list, err)
}

// WithdrawEnrollment revokes a token that more machines may use.
type WithdrawEnrollment struct {
	Meta       `json:"-"`
	Enrollment events.ID `json:"enrollmentId"`
}

func (c WithdrawEnrollment) denial() events.CommandDenied {
	return denialOf(events.EnrollmentWithdrawn{}, c.Enrollment)
}

func (WithdrawEnrollment) limit() *limit { return ending }

// WithdrawEnrollment refuses a token that was used as often as it may be.
func (h *Handler) WithdrawEnrollment(ctx context.Context, c WithdrawEnrollment) (Result, error) {
	return h.Execute(ctx, c.Meta, c, ifAllowed(events.ManageRunners,
		work.On(c.Enrollment, func(_ *work.Unit, enrollment *farm.Enrollment) ([]events.Event, error) {
			return enrollment.Withdraw()
		})))
}

// RegisterRunner makes a machine that showed a token a runner. Runner and Certificate are
// used if the machine has not been registered before.
type RegisterRunner struct {
	Meta
	Token       bearer.EnrollmentToken
	Authority   events.AuthorityCreated
	Runner      events.ID
	Machine     farm.Machine
	Certificate events.Certificate
}

// A Registered is a registered runner and its certificate.
type Registered struct {
	Workspace, Runner events.ID
	Name              string
	Certificate       events.Certificate
	Position          int64
	New               bool // the request has used the token, and repeats no earlier one
}

// Enrollment returns the enrollment of a token and its workspace, or
// [farm.ErrEnrollmentInvalid].
func (h *Handler) Enrollment(ctx context.Context, token bearer.EnrollmentToken) (workspace, enrollment events.ID, err error) {
	workspace, enrollment, err = h.log.Holder(ctx, events.EnrollmentKey(token.Fingerprint()))
	switch {
	case err != nil:
		return workspace, enrollment, fmt.Errorf("look up enrollment: %w", err)
	case enrollment.IsZero():
		return workspace, enrollment, farm.ErrEnrollmentInvalid
	}
	return workspace, enrollment, nil
}

// RegisterRunner refuses an invalid token, one that machines with other keys have used up, and
// one of a person who may no longer manage runners. Repeated with the same key it returns the
// same runner.
func (h *Handler) RegisterRunner(ctx context.Context, c RegisterRunner) (r Registered, err error) {
	workspace, id, err := h.Enrollment(ctx, c.Token)
	if err != nil {
		return r, err
	}
	c.Workspace = workspace
	var refusal error
	done, err := h.Execute(ctx, c.Meta, c, func(w *work.Unit) (err error) {
		r, refusal, err = register(w, c, id)
		return err
	})
	if err == nil {
		err = refusal // only now: the events that record the attempt have been stored
	}
	r.Workspace, r.Position = workspace, done.Position
	return r, err
}

func register(w *work.Unit, c RegisterRunner, id events.ID) (r Registered, refusal, err error) {
	w.Meta.Actor = c.Actor // an earlier attempt may have set it to the runner
	enrollment, err := work.Load[farm.Enrollment](w, id)
	if err != nil {
		return r, nil, err
	}
	used := enrollment.Runner(c.Machine.Key)
	own, its, refusal := enrollment.Use(c.Token.Fingerprint(), c.Runner, c.Machine, c.Certificate, w.Now)
	if refusal != nil || len(own) == 0 && used.IsZero() {
		return r, refusal, w.AddEvents(id, own, nil)
	}
	if len(own) > 0 {
		err := work.Inspect(w, w.Meta.Workspace, func(ws *aggregates.Workspace) error {
			return ws.Allow(enrollment.Minter(), events.ManageRunners)
		})
		switch {
		case errors.Is(err, fault.ErrTenantNotFound), errors.Is(err, aggregates.ErrRoleRequired):
			return r, farm.ErrEnrollmentInvalid, nil
		case err != nil:
			return r, nil, err
		}
	}
	if err := recordAuthority(w, c.Authority); err != nil {
		return r, nil, err
	}
	if len(own) == 0 {
		r, err = registered(w, used, c.Machine.Key)
		return r, nil, err
	}
	begun := its[0].(events.RunnerEnrolled)
	w.Meta.Actor = events.Actor{Type: events.ByRunner, ID: c.Runner, Name: begun.Name}
	if _, err := work.Load[farm.Runner](w, c.Runner); err != nil {
		return r, nil, err
	}
	if err := w.AddEvents(id, own, nil); err != nil {
		return r, nil, err
	}
	return Registered{Runner: c.Runner, Name: begun.Name, Certificate: begun.Certificate, New: true}, nil, w.AddEvents(c.Runner, its, nil)
}

// registered returns the answer for a machine that was registered before with a key. Once the runner has renewed its
// certificate for another key, or let it expire, the token gives it none.
func registered(w *work.Unit, id events.ID, key events.KeyHash) (r Registered, err error) {
	err = work.Inspect(w, id, func(runner *farm.Runner) error {
		newest := runner.NewestCertificate()
		if runner.State().Barred() || newest.Key != key || !w.Now.Before(newest.NotAfter) {
			return farm.ErrEnrollmentInvalid
		}
		r = Registered{Runner: id, Name: runner.Name(), Certificate: newest}
		return nil
	})
	return r, err
}
