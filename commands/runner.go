package commands

import (
	"context"

	"svc/aggregates/farm"
	"svc/commands/work"
	"svc/events"
)

// DrainRunner makes a runner take no new jobs, at the request of a person or of the runner
// itself.
type DrainRunner struct {
	Meta   `json:"-"`
	Runner events.ID `json:"runnerId"`
	Note   string    `json:"note"`
}

func (c DrainRunner) denial() events.CommandDenied {
	return denialOf(events.RunnerDrainRequested{}, c.Runner)
}

// DrainRunner records only a new note if the runner is draining already, and nothing if there is none.
func (h *Handler) DrainRunner(ctx context.Context, c DrainRunner) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunner(c.Runner, func(_ *work.Unit, r *farm.Runner) ([]events.Event, error) {
		return r.Drain(c.Note)
	}))
}

// ResumeRunner ends the draining of a runner.
type ResumeRunner struct {
	Meta   `json:"-"`
	Runner events.ID `json:"runnerId"`
}

func (c ResumeRunner) denial() events.CommandDenied {
	return denialOf(events.RunnerDrainEnded{}, c.Runner)
}

// ResumeRunner does nothing if the runner is not draining.
func (h *Handler) ResumeRunner(ctx context.Context, c ResumeRunner) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunner(c.Runner, func(_ *work.Unit, r *farm.Runner) ([]events.Event, error) {
		return r.Resume()
	}))
}

// RevokeRunner ends a runner and its certificates, at once and for good.
type RevokeRunner struct {
	Meta   `json:"-"`
	Runner events.ID `json:"runnerId"`
	Note   string    `json:"note"`
}

func (c RevokeRunner) denial() events.CommandDenied {
	return denialOf(events.RunnerRevoked{}, c.Runner)
}

func (RevokeRunner) limit() *limit { return ending }

// RevokeRunner does nothing if the runner is revoked already. A runner may revoke itself
// when it is uninstalled.
func (h *Handler) RevokeRunner(ctx context.Context, c RevokeRunner) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunner(c.Runner, func(_ *work.Unit, r *farm.Runner) ([]events.Event, error) {
		return r.Revoke(c.Note)
	}))
}

// ConnectRunner records that a runner's agent is connected, and what it reports about
// itself. Quiet means that nothing is recorded about a runner that is known to be
// connected.
type ConnectRunner struct {
	Meta
	Runner events.ID
	Hello  farm.Hello
	Quiet  bool
}

// ConnectRunner does nothing if all of that is known.
func (h *Handler) ConnectRunner(ctx context.Context, c ConnectRunner) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunner(c.Runner, func(_ *work.Unit, r *farm.Runner) ([]events.Event, error) {
		return r.Connect(c.Hello, c.Quiet)
	}))
}

// DisconnectRunner records that a runner is no longer connected.
type DisconnectRunner struct {
	Meta
	Runner events.ID
	Reason events.OfflineReason
}

// DisconnectRunner does nothing if that is known.
func (h *Handler) DisconnectRunner(ctx context.Context, c DisconnectRunner) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunner(c.Runner, func(_ *work.Unit, r *farm.Runner) ([]events.Event, error) {
		return r.Disconnect(c.Reason)
	}))
}

// RetireRunner ends a runner that has done as many jobs as it was enrolled for.
type RetireRunner struct {
	Meta
	Runner events.ID
}

// RetireRunner does nothing if the runner may take more jobs.
func (h *Handler) RetireRunner(ctx context.Context, c RetireRunner) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunner(c.Runner, func(_ *work.Unit, r *farm.Runner) ([]events.Event, error) {
		return r.Retire()
	}))
}

// ShowCertificate records the use of one of a runner's certificates, whose signature was
// verified.
type ShowCertificate struct {
	Meta
	Runner events.ID
	Serial string
}

// ShowCertificate refuses a certificate that is not valid any more. The use of a superseded
// one suspends the runner, without an error.
func (h *Handler) ShowCertificate(ctx context.Context, c ShowCertificate) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRunner(c.Runner, func(w *work.Unit, r *farm.Runner) ([]events.Event, error) {
		return r.UseCertificate(c.Serial, w.Now)
	}))
}

// RenewCertificate gives a runner a new certificate in place of one that it showed.
type RenewCertificate struct {
	Meta
	Runner      events.ID
	Authority   events.AuthorityCreated
	Shown       string // its serial number
	Certificate events.Certificate
}

// RenewCertificate returns the certificate to issue: the last one again, if the runner
// repeats the request with the same key. It refuses a request that comes too early.
func (h *Handler) RenewCertificate(ctx context.Context, c RenewCertificate) (done Result, renewed events.Certificate, err error) {
	renew := onRunner(c.Runner, func(w *work.Unit, r *farm.Runner) ([]events.Event, error) {
		list, err := r.Renew(c.Certificate, c.Shown, w.Now)
		renewed = r.NewestCertificate()
		if len(list) > 0 {
			renewed = c.Certificate
		}
		return list, err
	})
	done, err = h.Execute(ctx, c.Meta, c, func(w *work.Unit) error {
		// RegisterRunner locks the authority before the runner too, so that neither waits for the other.
		if err := recordAuthority(w, c.Authority); err != nil {
			return err
		}
		return renew(w)
	})
	return done, renewed, err
}

// onRunner is work.On for a runner. The runner itself and the service may issue such a command, and
// people who may manage runners.
func onRunner(
	id events.ID, decide func(*work.Unit, *farm.Runner) ([]events.Event, error),
) work.Decide {
	own := work.On(id, decide)
	return func(w *work.Unit) error {
		if by := w.Meta.Actor; by.Type == events.BySystem || by.Type == events.ByRunner && by.ID == id {
			return own(w)
		}
		return ifAllowed(events.ManageRunners, own)(w)
	}
}
