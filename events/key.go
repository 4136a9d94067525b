package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// EmailKey is the global key of the holder of an e-mail address.
func EmailKey(address string) string { return "email/" + address }

// AccountKey is the global key of the user of a provider's account.
func AccountKey(e UserAccountLinked) string { return "account/" + e.Key() }

// SlugKey is the global key of the workspace with a slug.
func SlugKey(slug string) string { return "slug/" + slug }

// InvitationKey is the global key of the workspace of an invitation.
func InvitationKey(id ID) string { return "invitation/" + id.String() }

// EnrollmentKey is the global key of the enrollment with a token.
func EnrollmentKey(f Fingerprint) string { return "enrollment/" + hex.EncodeToString(f[:]) }

// HookKey is the global key of the repository with a hook.
func HookKey(id ID) string { return "hook/" + id.String() }

// ServiceAccountKey is the workspace's key of the service account with a name.
func ServiceAccountKey(name string) string { return "service_account/" + name }

// IssueKey is the workspace's key of an issue's active run.
func IssueKey(repo ID, number int) string { return fmt.Sprintf("issue/%s/%d", repo, number) }

// LabelKey is the workspace's key of the run for which an issue was given a label, for good.
func LabelKey(repo ID, event string) string { return fmt.Sprintf("label/%s/%s", repo, event) }

// ConcurrencyKey is the workspace's key of a job that a runner holds: one slot of as many
// as jobs with that concurrency key may run at once.
func ConcurrencyKey(key string, slot int) string {
	return fmt.Sprintf("job_concurrency/%d/%s", slot, key)
}

// SlotKeys begin the workspace's keys of the places of its active runs, numbered from 1.
const SlotKeys = "run_slot/"

// RunSlotKey is the workspace's key of one of the places of its active runs.
func RunSlotKey(slot int) string { return fmt.Sprintf("%s%d", SlotKeys, slot) }

// RepoSlotKeys begin the workspace's keys of the places of a repository's active runs.
func RepoSlotKeys(repo ID) string { return fmt.Sprintf("repo_slot/%s/", repo) }

// RepoSlotKey is the workspace's key of one of the places of a repository's active runs.
func RepoSlotKey(repo ID, slot int) string { return fmt.Sprintf("%s%d", RepoSlotKeys(repo), slot) }

// LaneKey is the workspace's key of the run whose turn it is to merge into a branch.
func LaneKey(repo ID, branch string) string { return fmt.Sprintf("merge_lane/%s/%s", repo, branch) }

// KeyOwner is the owner of a key that a run holds. A run can hold several keys, and each has an owner of its own, so
// that what happened to the run says which keys it holds: its issue's is the run itself.
func KeyOwner(run ID, key string) ID {
	kind, _, _ := strings.Cut(key, "/")
	if kind == "issue" {
		return run
	}
	sum := sha256.Sum256([]byte(run.String() + "/" + kind))
	return ID(sum[:16])
}

// RepoKey is the workspace's key of the connected repository with an address, however it is written.
func RepoKey(cloneURL string) string {
	_, place, _ := strings.Cut(strings.ToLower(cloneURL), "://")
	return "repo/" + strings.TrimSuffix(strings.TrimRight(place, "/"), ".git")
}
