package codehost

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-github/v75/github"

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
	if e, ok := errors.AsType[*github.RateLimitError](err); ok {
		return limitedUntil(time.Until(e.Rate.Reset.Time))
	}
	if e, ok := errors.AsType[*github.AbuseRateLimitError](err); ok {
		return limitedUntil(e.GetRetryAfter())
	}
	if e, ok := errors.AsType[*github.RedirectionError](err); ok {
		return &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: fmt.Sprintf("The code host sends to another place (%d): the repository may have been renamed. Check it again.", e.StatusCode)}
	}
	if e, ok := errors.AsType[*github.TwoFactorAuthError](err); ok {
		return credential(e.Message)
	}
	if e, ok := errors.AsType[*github.ErrorResponse](err); ok {
		return answered(e)
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

func credential(words string) error {
	return &client.Failure{Class: client.Surroundings, Code: client.CodeCredential,
		Message: "The code host refuses the credential: " + cut(words)}
}

// The bounds of a wait for a host that limits requests.
const (
	leastWait = time.Second
	longest   = time.Hour
)

func limitedUntil(wait time.Duration) error {
	wait = min(max(wait, leastWait), longest)
	return &client.Failure{Class: client.Transient, Code: client.CodeHostLimited,
		Message: "The code host takes no more requests for now.", RetryAfter: int((wait + time.Second - 1) / time.Second)}
}

func answered(e *github.ErrorResponse) error {
	words := wordsOf(e)
	after, _ := strconv.Atoi(e.Response.Header.Get("Retry-After"))
	switch code := status(e.Response); {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && after > 0:
		return limitedUntil(time.Duration(max(after, 1)) * time.Second)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return credential(words)
	case code == http.StatusNotFound:
		return &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The code host has no such repository for the credential: " + words}
	case code >= 500:
		return &client.Failure{Class: client.Transient, Code: client.CodeHostAway,
			Message: fmt.Sprintf("The code host answers with %d: %s", code, words), RetryAfter: min(max(after, 0), int(longest/time.Second))}
	default:
		return &client.Failure{Class: client.Permanent, Code: client.CodeHostRefused, Message: "The code host refuses: " + words}
	}
}

// wordsOf returns what the host says, with the details.
func wordsOf(e *github.ErrorResponse) string {
	texts := []string{e.Message}
	for _, detail := range e.Errors {
		if text := detail.Message; text != "" {
			texts = append(texts, text)
		}
	}
	text := strings.TrimSpace(strings.Join(texts, " / "))
	if text == "" {
		text = e.Response.Status
	}
	return cut(text)
}

const maxWords = 600

// cut returns a text in one line and at most maxWords bytes.
func cut(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], "")
}

// statusOf returns the status that the host answered with, 0 if it did not answer.
func statusOf(err error) int {
	if e, ok := errors.AsType[*github.ErrorResponse](err); ok {
		return status(e.Response)
	}
	return 0
}
