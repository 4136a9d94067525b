package projections

import (
	"svc/events"
	"svc/projections/fold"
)

// The unique keys that are claimed, according to the log. The append maintains their tables itself,
// because it has to know at once whether a key is free. Folding them allows comparison with the
// log, and rebuilds.

type globalKey struct {
	Key       string    `db:"key"`
	Workspace events.ID `db:"workspace_id"`
	Owner     events.ID `db:"owner"`
}

// globalKeys are the keys that are unique over all workspaces.
var globalKeys = &fold.Table[string, globalKey]{
	View: "global_keys", Updated: fold.ByAppend, Key: "key", GlobalKey: true,
	Kinds: []string{"user", "workspace", "invitation", "enrollment", "repo.hook_set"},
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
		case events.RepoHookSet:
			return []string{events.HookKey(e.Hook)}
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
		case events.RepoHookSet:
			return held(r.Stream)
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

// uniqueKeys are the keys that are unique in a workspace. Rows are identified by the owner, who has
// one key: the event that ends a run does not contain its issue, nor does that of a job contain its
// slot.
var uniqueKeys = &fold.Table[events.ID, uniqueKey]{
	View: "unique_keys", Updated: fold.ByAppend, Key: "owner", PrimaryColumns: []string{"workspace_id", "key"},
	Kinds: []string{
		"service_account", "run.queued", "run.started", "run.lane_entered", "run.stage_entered", "run.merge_approval_voided",
		"run.merged", "run.rejected", "run.failed", "run.cancelled",
		"job.leased", "job.requeued", "job.finished", "job.cancelled", "job.lost",
		"repo.connected", "repo.renamed", "repo.disconnected",
	},
	Keys: func(r events.Record) []events.ID {
		switch e := r.Event.(type) {
		case events.RunQueued:
			if e.Label != nil {
				return []events.ID{r.Stream, labelOwner(r.Stream)}
			}
			return []events.ID{r.Stream}
		case events.ServiceAccountCreated, events.ServiceAccountRevoked, events.JobLeased,
			events.RepoConnected, events.RepoRenamed, events.RepoDisconnected:
			return []events.ID{r.Stream}
		case events.RunStarted:
			return []events.ID{slotOwner(r.Stream), repoSlotOwner(r.Stream)}
		case events.RunLaneEntered, events.RunMergeApprovalVoided:
			return []events.ID{laneOwner(r.Stream)}
		case events.RunStageEntered:
			if e.Stage != events.StageMerge {
				return []events.ID{laneOwner(r.Stream)}
			}
		}
		switch {
		case events.EndsRun(r.Event):
			return []events.ID{r.Stream, slotOwner(r.Stream), repoSlotOwner(r.Stream), laneOwner(r.Stream)}
		case events.LeavesRunner([]events.Event{r.Event}):
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(owner events.ID, _ *uniqueKey, r events.Record) *uniqueKey {
		if key := claimedKey(owner, r); key != "" {
			return &uniqueKey{r.Workspace, key, owner}
		}
		return nil
	},
}

// claimedKey returns the key that an event gives to an owner, "" if it takes a key away.
func claimedKey(owner events.ID, r events.Record) string {
	switch e := r.Event.(type) {
	case events.RunQueued:
		if owner == labelOwner(r.Stream) {
			return events.LabelKey(e.Repo.ID, e.Label.Event)
		}
		return events.IssueKey(e.Repo.ID, e.IssueNumber)
	case events.RunStarted:
		if owner == slotOwner(r.Stream) {
			return events.RunSlotKey(e.Slot)
		}
		return events.RepoSlotKey(e.Repo, e.RepoSlot)
	case events.RunLaneEntered:
		return events.LaneKey(e.Repo, e.Branch)
	case events.ServiceAccountCreated:
		return events.ServiceAccountKey(e.Name)
	case events.ServiceAccountRevoked:
		if e.KeepsName {
			return events.ServiceAccountKey(e.Name)
		}
	case events.JobLeased:
		if e.Slot > 0 {
			return events.ConcurrencyKey(e.Key, e.Slot)
		}
	case events.RepoConnected:
		return events.RepoKey(e.Host.Clone)
	case events.RepoRenamed:
		return events.RepoKey(e.Host.Clone)
	}
	return ""
}

func labelOwner(run events.ID) events.ID {
	return events.KeyOwner(run, events.LabelKey(events.ID{}, ""))
}

func slotOwner(run events.ID) events.ID { return events.KeyOwner(run, events.RunSlotKey(1)) }
func repoSlotOwner(run events.ID) events.ID {
	return events.KeyOwner(run, events.RepoSlotKey(events.ID{}, 1))
}
func laneOwner(run events.ID) events.ID { return events.KeyOwner(run, events.LaneKey(events.ID{}, "")) }
