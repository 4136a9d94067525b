package codehost

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"svc/engine/client"
)

// failure turns an error of the host's client into what it means for a step.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, errAddress) {
		return &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The code host's name leads to an address that may not be used."}
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.failure()
	}
	return away(unanswered(err))
}

// unanswered says why a host gave no answer, without the addresses of this network.
func unanswered(err error) string {
	var timeout net.Error
	switch {
	case isA[*net.DNSError](err):
		return "The name of the code host leads nowhere."
	case isA[*tls.CertificateVerificationError](err):
		return "The certificate of the code host is not trusted."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The code host refuses connections."
	case errors.As(err, &timeout) && timeout.Timeout():
		return "The code host does not answer in time."
	}
	return "The code host does not answer as it should."
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func away(text string) error {
	return &client.Failure{Class: client.Transient, Code: client.CodeHostAway, Message: text}
}

// A refusal is an answer of a host that is none of success. The clients of hosts have errors of their own for it, each
// with less than is needed: that of Gitea does not pass on why a merge is refused.
type refusal struct {
	status int
	header http.Header
	words  string // what the host says, in one line
}

func (r *refusal) Error() string { return fmt.Sprintf("%d: %s", r.status, r.words) }

const (
	maxWords   = 600
	maxRefusal = 64 << 10 // bytes of its body
)

// newRefusal reads an answer and closes its body.
func newRefusal(res *http.Response) *refusal {
	defer res.Body.Close()
	var body struct {
		Message string
		Errors  []json.RawMessage // objects with a message at GitHub, texts at Gitea
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // what came says more than nothing
	_ = json.Unmarshal(text, &body)
	said := []string{body.Message}
	for _, one := range body.Errors {
		var detail struct{ Message string }
		if json.Unmarshal(one, &detail) == nil && detail.Message != "" {
			said = append(said, detail.Message)
		}
	}
	words := strings.Trim(strings.Join(said, " / "), " /")
	return &refusal{res.StatusCode, res.Header, cut(cmp.Or(words, res.Status))}
}

// cut returns a text in one line and at most maxWords bytes.
func cut(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], "")
}

// failure returns what the refusal means whatever was asked.
func (r *refusal) failure() error {
	after, limits := r.limits()
	switch {
	case limits:
		return limitedFor(after)
	case r.status < 400:
		return &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: fmt.Sprintf("The code host sends to another place (%d): the repository may have been renamed. Check it again.", r.status)}
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return &client.Failure{Class: client.Surroundings, Code: client.CodeCredential,
			Message: "The code host refuses the credential: " + r.words}
	case r.status == http.StatusNotFound:
		return &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The code host has no such repository for the credential: " + r.words}
	case r.status == http.StatusLocked: // Gitea
		return &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The repository is archived at the code host: " + r.words}
	case r.status >= 500:
		return &client.Failure{Class: client.Transient, Code: client.CodeHostAway,
			Message:    fmt.Sprintf("The code host answers with %d: %s", r.status, r.words),
			RetryAfter: min(max(r.after(), 0), int(longest/time.Second))}
	}
	return &client.Failure{Class: client.Permanent, Code: client.CodeHostRefused, Message: "The code host refuses: " + r.words}
}

// The bounds of a wait for a host that limits requests.
const (
	leastWait = time.Second
	untold    = time.Minute // if the host does not say how long
	longest   = time.Hour
)

// limits reports whether the host takes no more requests for now, and how long.
func (r *refusal) limits() (time.Duration, bool) {
	if r.status != http.StatusTooManyRequests && r.status != http.StatusForbidden {
		return 0, false
	}
	if after := r.after(); after > 0 {
		return time.Duration(after) * time.Second, true
	}
	if r.header.Get("X-Ratelimit-Remaining") == "0" {
		reset, _ := strconv.ParseInt(r.header.Get("X-Ratelimit-Reset"), 10, 64)
		return time.Until(time.Unix(reset, 0)), true
	}
	return untold, r.status == http.StatusTooManyRequests || strings.Contains(r.words, "secondary rate limit")
}

// after returns the seconds after which the host wants to be asked again, 0 if it does not say.
func (r *refusal) after() int {
	after, _ := strconv.Atoi(r.header.Get("Retry-After"))
	return after
}

func limitedFor(wait time.Duration) error {
	wait = min(max(wait, leastWait), longest)
	return &client.Failure{Class: client.Transient, Code: client.CodeHostLimited,
		Message: "The code host takes no more requests for now.", RetryAfter: int((wait + time.Second - 1) / time.Second)}
}

// statusOf returns the status that the host refused with, 0 if it did not refuse.
func statusOf(err error) int {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status
	}
	return 0
}
