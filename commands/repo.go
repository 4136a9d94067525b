package commands

import (
	"context"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
)

// ConnectRepo lets runs work on a repository, under an id that the caller has generated. The caller has stored the
// credentials in the vault, and has tried them: Checks is what a probe found.
type ConnectRepo struct {
	Meta           `json:"-"`
	Repo           events.ID           `json:"-"`
	Name           string              `json:"name"`
	Host           events.RepoHost     `json:"host"`
	Credential     events.ID           `json:"-"`
	ReadCredential events.ID           `json:"-"`
	Settings       events.RepoSettings `json:"settings"`
	Checks         []events.RepoCheck  `json:"-"`
}

func (c ConnectRepo) denial() events.CommandDenied {
	e := denialOf(events.RepoConnected{}, events.ID{})
	e.Name = c.Name
	return e
}

// ConnectRepo refuses callers who may not manage repositories, as do the other commands here, and a repository whose
// address another one has.
func (h *Handler) ConnectRepo(ctx context.Context, c ConnectRepo) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(w *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		w.Claim(events.Claim{Key: events.RepoKey(c.Host.Clone), Owner: c.Repo}, aggregates.ErrRepoConnected)
		return r.Connect(events.RepoConnected{
			Name: c.Name, Host: c.Host, Credential: c.Credential, ReadCredential: c.ReadCredential, Settings: c.Settings,
		}, c.Checks...)
	}))
}

// ChangeRepoSettings changes how runs work on a repository.
type ChangeRepoSettings struct {
	Meta   `json:"-"`
	Repo   events.ID                                              `json:"repoId"`
	Change func(events.RepoSettings) (events.RepoSettings, error) `json:"-"` // must not modify slices
}

func (c ChangeRepoSettings) denial() events.CommandDenied {
	return denialOf(events.RepoSettingsChanged{}, c.Repo)
}

// ChangeRepoSettings applies Change to the present settings. It does nothing if that changes nothing.
func (h *Handler) ChangeRepoSettings(ctx context.Context, c ChangeRepoSettings) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(_ *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		if !r.Connected() {
			return nil, aggregates.ErrNoRepo
		}
		to, err := c.Change(r.Settings())
		if err != nil {
			return nil, err
		}
		return r.ChangeSettings(to)
	}))
}

// CheckRepo records what a probe of a repository found.
type CheckRepo struct {
	Meta   `json:"-"`
	Repo   events.ID          `json:"repoId"`
	Checks []events.RepoCheck `json:"-"`
}

func (c CheckRepo) denial() events.CommandDenied { return denialOf(events.RepoChecked{}, c.Repo) }

// CheckRepo does nothing if the findings are as before.
func (h *Handler) CheckRepo(ctx context.Context, c CheckRepo) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(_ *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		return r.RecordCheck(c.Checks)
	}))
}

// ReplaceRepoCredential gives a credential of a repository a new value, which the caller has stored in the vault. The
// zero ID takes the credential away.
type ReplaceRepoCredential struct {
	Meta  `json:"-"`
	Repo  events.ID             `json:"repoId"`
	Which events.CredentialKind `json:"which"`
	Value events.ID             `json:"-"`
}

func (c ReplaceRepoCredential) denial() events.CommandDenied {
	return denialOf(events.RepoCredentialReplaced{}, c.Repo)
}

// ReplaceRepoCredential returns the vault's id of the former value, which can be deleted; it is zero if there was none.
func (h *Handler) ReplaceRepoCredential(ctx context.Context, c ReplaceRepoCredential) (done Result, former events.ID, err error) {
	done, err = h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(_ *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		former = r.Credential(c.Which)
		return r.ReplaceCredential(c.Which, c.Value)
	}))
	return done, former, err
}

// SetRepoHook gives a repository a hook, whose secret the caller has stored in the vault.
type SetRepoHook struct {
	Meta `json:"-"`
	Repo events.ID `json:"repoId"`
	Hook events.ID `json:"-"`
}

func (c SetRepoHook) denial() events.CommandDenied { return denialOf(events.RepoHookSet{}, c.Repo) }

// SetRepoHook returns the id of the former hook, whose secret can be deleted; it is zero if there was none.
func (h *Handler) SetRepoHook(ctx context.Context, c SetRepoHook) (done Result, former events.ID, err error) {
	done, err = h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(w *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		former = r.Hook()
		w.Claim(events.Claim{Key: events.HookKey(c.Hook), Owner: c.Repo, Global: true}, nil)
		return r.SetHook(c.Hook)
	}))
	return done, former, err
}

// PauseRepo stops work on a repository. Code is empty if a person does.
type PauseRepo struct {
	Meta   `json:"-"`
	Repo   events.ID        `json:"repoId"`
	Reason string           `json:"reason"`
	Code   events.PauseCode `json:"code,omitempty"`
}

func (c PauseRepo) denial() events.CommandDenied { return denialOf(events.RepoPaused{}, c.Repo) }
func (PauseRepo) limit() *limit                  { return ending }

// PauseRepo does nothing if a person has paused the repository already.
func (h *Handler) PauseRepo(ctx context.Context, c PauseRepo) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(_ *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		return r.Pause(c.Reason, c.Code)
	}))
}

// ResumeRepo ends a pause, whoever paused the repository.
type ResumeRepo struct {
	Meta `json:"-"`
	Repo events.ID `json:"repoId"`
}

func (c ResumeRepo) denial() events.CommandDenied { return denialOf(events.RepoResumed{}, c.Repo) }

// ResumeRepo does nothing if the repository is not paused.
func (h *Handler) ResumeRepo(ctx context.Context, c ResumeRepo) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(_ *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		return r.Resume()
	}))
}

// NoteImplementer records that the implementer of a repository was not available to a job of a run, and why; or with Why
// "" that it is available again.
type NoteImplementer struct {
	Meta
	Repo, Run, Job events.ID
	Why            string
}

// NoteImplementer pauses the repository when the implementer was not available three times in a row. It does nothing if
// that is known.
func (h *Handler) NoteImplementer(ctx context.Context, c NoteImplementer) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(w *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		return r.NoteImplementer(c.Run, c.Job, c.Why, w.Now)
	}))
}

// RenameRepo records that a repository has another name or other addresses at its host, as a probe found.
type RenameRepo struct {
	Meta `json:"-"`
	Repo events.ID       `json:"repoId"`
	Name string          `json:"name"`
	Host events.RepoHost `json:"host"`
}

// RenameRepo does nothing if that is known. It refuses an address that another connected repository has.
func (h *Handler) RenameRepo(ctx context.Context, c RenameRepo) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(w *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		list, err := r.Rename(c.Name, c.Host)
		if before, now := events.RepoKey(r.Host().Clone), events.RepoKey(c.Host.Clone); err == nil && before != now {
			w.Release(events.Claim{Key: before, Owner: c.Repo})
			w.Claim(events.Claim{Key: now, Owner: c.Repo}, aggregates.ErrRepoConnected)
		}
		return list, err
	}))
}

// DisconnectRepo ends work on a repository. Name is the repository's, which the person has typed.
type DisconnectRepo struct {
	Meta `json:"-"`
	Repo events.ID `json:"repoId"`
	Name string    `json:"name"`
}

func (c DisconnectRepo) denial() events.CommandDenied {
	return denialOf(events.RepoDisconnected{}, c.Repo)
}

func (DisconnectRepo) limit() *limit { return ending }

// DisconnectRepo returns the vault's ids of the credentials and of the hook's secret, which can be deleted. The repository can then be
// connected again, under another id.
func (h *Handler) DisconnectRepo(ctx context.Context, c DisconnectRepo) (done Result, former []events.ID, err error) {
	done, err = h.Execute(ctx, c.Meta, c, onRepo(c.Repo, func(w *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
		former = []events.ID{r.Credential(events.WriteCredential), r.Credential(events.ReadCredential), r.Hook()}
		w.Release(events.Claim{Key: events.RepoKey(r.Host().Clone), Owner: c.Repo})
		return r.Disconnect(c.Name)
	}))
	return done, former, err
}

// onRepo is work.On for a repository, for people who may manage repositories and for the service itself.
func onRepo(id events.ID, decide func(*work.Unit, *aggregates.Repo) ([]events.Event, error)) work.Decide {
	return func(w *work.Unit) error {
		if w.Meta.Actor.Type != events.BySystem {
			if err := allow(w, events.ManageRepos); err != nil {
				return err
			}
		}
		return work.On(id, func(w *work.Unit, r *aggregates.Repo) ([]events.Event, error) {
			return decide(w, r)
		})(w)
	}
}
