package projections

import (
	"svc/events"
	"svc/projections/fold"
)

// The keys that were claimed and not released, as the log says. The append keeps
// their tables by itself, for it has to know at once whether a key is free; that
// they can be folded lets them be compared with the log, and made anew.

type globalKey struct {
	Key       string    `db:"key"`
	Workspace events.ID `db:"workspace_id"`
	Owner     events.ID `db:"owner"`
}

// globalKeys are those that may exist once at all.
var globalKeys = &fold.Table[string, globalKey]{
	View: "global_keys", KeptBy: fold.ByAppend, Key: "key", Alone: true,
	Kinds: []string{"user", "workspace", "invitation", "enrollment"},
	Keys: func(r events.Record) []string {
		switch e := r.Event.(type) {
		case events.UserRegistered:
			return emailKeys(e.Emails)
		case events.UserEmailsVerified:
			return append(emailKeys(e.From), emailKeys(e.Emails)...)
		case events.UserAccountLinked:
			return []string{events.AccountKey(e)}
		case events.WorkspaceCreated:
			return []string{events.SlugKey(e.Slug)}
		case events.WorkspaceRenamed:
			return []string{events.SlugKey(e.FromSlug), events.SlugKey(e.Slug)}
		case events.InvitationSent:
			return []string{events.InvitationKey(e.Invitation)}
		case events.EnrollmentMinted:
			return []string{events.EnrollmentKey(e.Fingerprint)}
		}
		return nil
	},
	Apply: func(key string, k *globalKey, r events.Record) *globalKey {
		held := func(owner events.ID) *globalKey { return &globalKey{key, r.Workspace, owner} }
		switch e := r.Event.(type) {
		case events.UserRegistered:
			return held(e.User)
		case events.UserEmailsVerified:
			for _, address := range e.Emails {
				if key == events.EmailKey(address) {
					return held(e.User)
				}
			}
			return nil
		case events.UserAccountLinked:
			return held(e.User)
		case events.WorkspaceCreated:
			return held(r.Workspace)
		case events.WorkspaceRenamed:
			if key != events.SlugKey(e.Slug) {
				return nil
			}
			return held(r.Workspace)
		case events.InvitationSent:
			return held(e.Invitation)
		case events.EnrollmentMinted:
			return held(e.Enrollment)
		}
		return k
	},
}

func emailKeys(addresses []string) (keys []string) {
	for _, address := range addresses {
		keys = append(keys, events.EmailKey(address))
	}
	return keys
}

type uniqueKey struct {
	Workspace events.ID `db:"workspace_id"`
	Key       string    `db:"key"`
	Owner     events.ID `db:"owner"`
}

// uniqueKeys are those that may exist once in a workspace. They are known by their
// owners, of which each has one: the end of a run does not say which issue it was
// about, nor that of a job which slot it held.
var uniqueKeys = &fold.Table[events.ID, uniqueKey]{
	View: "unique_keys", KeptBy: fold.ByAppend, Key: "owner", Unique: []string{"workspace_id", "key"},
	Kinds: []string{
		"service_account", "run.queued", "run.merged", "run.rejected", "run.failed", "run.cancelled",
		"job.leased", "job.requeued", "job.finished", "job.cancelled", "job.lost",
	},
	Keys: func(r events.Record) []events.ID {
		switch r.Event.(type) {
		case events.RunQueued, events.ServiceAccountCreated, events.ServiceAccountRevoked, events.JobLeased:
			return []events.ID{r.Stream}
		}
		if events.EndsRun(r.Event) || events.LeavesRunner([]events.Event{r.Event}) {
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(owner events.ID, _ *uniqueKey, r events.Record) *uniqueKey {
		switch e := r.Event.(type) {
		case events.RunQueued:
			return &uniqueKey{r.Workspace, events.IssueKey(e.Repo.ID, e.IssueNumber), owner}
		case events.ServiceAccountCreated:
			return &uniqueKey{r.Workspace, events.ServiceAccountKey(e.Name), owner}
		case events.JobLeased:
			if e.Slot > 0 {
				return &uniqueKey{r.Workspace, events.ConcurrencyKey(e.Key, e.Slot), owner}
			}
		}
		return nil
	},
}
