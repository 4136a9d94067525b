package events

import (
	"encoding/hex"
	"fmt"
)

// EmailKey is the global key by which the holder of an address is found.
func EmailKey(address string) string { return "email/" + address }

// AccountKey is the global key by which the person of an account is found.
func AccountKey(e UserAccountLinked) string { return "account/" + e.Key() }

// SlugKey is the global key by which the workspace of a slug is found.
func SlugKey(slug string) string { return "slug/" + slug }

// InvitationKey is the global key by which the workspace of an invitation is found.
func InvitationKey(id ID) string { return "invitation/" + id.String() }

// EnrollmentKey is the global key by which the enrolment of a token is found.
func EnrollmentKey(f Fingerprint) string { return "enrollment/" + hex.EncodeToString(f[:]) }

// ServiceAccountKey is held in a workspace by the service account of that name.
func ServiceAccountKey(name string) string { return "service_account/" + name }

// IssueKey is held in a workspace by the active run of an issue.
func IssueKey(repo ID, number int) string { return fmt.Sprintf("issue/%s/%d", repo, number) }

// ConcurrencyKey is held in a workspace by a job that a runner has: one of as many slots as
// jobs with that key may run at once.
func ConcurrencyKey(key string, slot int) string {
	return fmt.Sprintf("job_concurrency/%d/%s", slot, key)
}
