package commands

import (
	"context"

	"svc/aggregates"
	"svc/events"
)

// DrainRunner lets a runner take no more jobs. A person asks for that, or the runner
// itself.
type DrainRunner struct {
	Meta   `json:"-"`
	Runner events.ID `json:"runnerId"`
	Note   string    `json:"note"`
}

func (c DrainRunner) denial() events.CommandDenied {
	return denialOf(events.RunnerDrainRequested{}, c.Runner)
}

// DrainRunner does nothing where the runner is drained already.
func (h *Handler) DrainRunner(ctx context.Context, c DrainRunner) (Result, error) {
	return h.carryRunner(ctx, c.Meta, c, c.Runner, func(_ *work, r *aggregates.Runner) ([]events.Event, error) { return r.Drain(c.Note) })
}

// ResumeRunner lets a runner that was drained take jobs again.
type ResumeRunner struct {
	Meta   `json:"-"`
	Runner events.ID `json:"runnerId"`
}

func (c ResumeRunner) denial() events.CommandDenied {
	return denialOf(events.RunnerDrainEnded{}, c.Runner)
}

// ResumeRunner does nothing where the runner is not drained.
func (h *Handler) ResumeRunner(ctx context.Context, c ResumeRunner) (Result, error) {
	return h.carryRunner(ctx, c.Meta, c, c.Runner, func(_ *work, r *aggregates.Runner) ([]events.Event, error) { return r.Resume() })
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

// RevokeRunner does nothing where the runner is revoked already. A runner may revoke
// itself, when it is uninstalled.
func (h *Handler) RevokeRunner(ctx context.Context, c RevokeRunner) (Result, error) {
	return h.carryRunner(ctx, c.Meta, c, c.Runner, func(_ *work, r *aggregates.Runner) ([]events.Event, error) { return r.Revoke(c.Note) })
}

// ConnectRunner says that a runner's agent is there, and what it says of itself. Quiet, of one
// that is known to be there nothing is said.
type ConnectRunner struct {
	Meta
	Runner events.ID
	Hello  aggregates.Hello
	Quiet  bool
}

// ConnectRunner does nothing where all of that is known.
func (h *Handler) ConnectRunner(ctx context.Context, c ConnectRunner) (Result, error) {
	return h.carryRunner(ctx, c.Meta, c, c.Runner, func(_ *work, r *aggregates.Runner) ([]events.Event, error) {
		return r.Connect(c.Hello, c.Quiet)
	})
}

// DisconnectRunner says that a runner is not heard of any more.
type DisconnectRunner struct {
	Meta
	Runner events.ID
	Reason events.OfflineReason
}

// DisconnectRunner does nothing where that is known.
func (h *Handler) DisconnectRunner(ctx context.Context, c DisconnectRunner) (Result, error) {
	return h.carryRunner(ctx, c.Meta, c, c.Runner, func(_ *work, r *aggregates.Runner) ([]events.Event, error) {
		return r.Disconnect(c.Reason)
	})
}

// RetireRunner ends a runner that has done all the jobs which it was enrolled for.
type RetireRunner struct {
	Meta
	Runner events.ID
}

// RetireRunner does nothing where the runner may take more jobs.
func (h *Handler) RetireRunner(ctx context.Context, c RetireRunner) (Result, error) {
	return h.carryRunner(ctx, c.Meta, c, c.Runner, func(_ *work, r *aggregates.Runner) ([]events.Event, error) { return r.Retire() })
}

// ShowCertificate takes in that a certificate of a runner was used, which is genuine.
type ShowCertificate struct {
	Meta
	Runner events.ID
	Serial string
}

// ShowCertificate refuses one that counts for nothing. One that was superseded suspends
// the runner, which is no refusal.
func (h *Handler) ShowCertificate(ctx context.Context, c ShowCertificate) (Result, error) {
	return h.carryRunner(ctx, c.Meta, c, c.Runner, func(w *work, r *aggregates.Runner) ([]events.Event, error) {
		return r.Show(c.Serial, w.at)
	})
}

// RenewCertificate gives a runner another certificate, for one that it showed.
type RenewCertificate struct {
	Meta
	Runner      events.ID
	Authority   events.AuthorityCreated
	Shown       string // the serial number
	Certificate events.Certificate
}

// RenewCertificate returns the certificate that the runner is to get: that of the last
// answer, if it asks with the same key again. It refuses whoever asks too early.
func (h *Handler) RenewCertificate(ctx context.Context, c RenewCertificate) (renewed events.Certificate, err error) {
	_, err = h.carryRunner(ctx, c.Meta, c, c.Runner, func(w *work, r *aggregates.Runner) ([]events.Event, error) {
		if err := w.certify(c.Authority); err != nil {
			return nil, err
		}
		list, err := r.Renew(c.Certificate, c.Shown, w.at)
		renewed = r.Renewed()
		if len(list) > 0 {
			renewed = c.Certificate
		}
		return list, err
	})
	return renewed, err
}

// carryRunner carries out what is asked of a runner: by itself or the service or, if they
// manage runners at the moment it is stored, by a person.
func (h *Handler) carryRunner(
	ctx context.Context, m Meta, request any, id events.ID, decide func(*work, *aggregates.Runner) ([]events.Event, error),
) (Result, error) {
	return h.carry(ctx, m, request, func(w *work) error {
		itself := m.Actor.Type == events.ByRunner && m.Actor.ID == id
		if !itself && m.Actor.Type != events.BySystem {
			if err := w.allow(events.ManageRunners); err != nil {
				return err
			}
		}
		runner, err := load[aggregates.Runner](w, id)
		if err != nil {
			return err
		}
		list, err := decide(w, runner)
		return w.then(id, list, err)
	})
}
