package outcome

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// failureLines is how many lines at the end of a log tell failures apart.
const failureLines = 100

// variable is what differs in the logs of the same failure: names of temporary files, ids, durations and times, addresses, hashes
// and numbers.
var variable = regexp.MustCompile(`(?:/private)?/(?:tmp|var/tmp|var/folders)/[^\s:'",)]*` +
	`|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?:[0-9]+(?:\.[0-9]+)?(?:ms|µs|ns|h|m|s))+\b` +
	`|0[xX][0-9a-fA-F]+|[0-9a-fA-F]*[0-9][0-9a-fA-F]*(?:[.,:][0-9]+)*`)

// Failure tells by the end of its log, of which at most so many bytes are there, how a job failed: it is the same for jobs
// that failed in the same way. It is "" if the job printed nothing, which says nothing.
func Failure(log []byte, most int) string {
	text := bytes.TrimSpace(variable.ReplaceAll(log, []byte("#")))
	if len(text) == 0 {
		return ""
	}
	lines := bytes.Split(text, []byte("\n"))
	if len(log) >= most { // the first line is a part of one
		lines = lines[1:]
	}
	text = bytes.Join(lines[max(0, len(lines)-failureLines):], []byte("\n"))
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
