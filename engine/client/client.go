// Package client calls the engine. It is the only package of the engine that other services link,
// and has the types of the protocol.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"svc/config"
)

// ErrKey says that the engine rejects the client's secret: the REST service and the engine have
// different values of SVC_ENGINE_SHARED_SECRET.
var ErrKey = errors.New("the engine refuses the shared secret")

// maxAnswerBytes bounds the bytes of an answer that are read.
const maxAnswerBytes = 1 << 20

// A Status is the body of GET /internal/status.
type Status struct {
	Status    string    `json:"status"` // ok
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"` // UTC, to the millisecond
}

// MarshalJSON writes StartedAt with exactly three fractional digits.
func (s Status) MarshalJSON() ([]byte, error) {
	type plain Status
	return json.Marshal(struct {
		plain
		StartedAt string `json:"startedAt"`
	}{plain(s), s.StartedAt.UTC().Format("2006-01-02T15:04:05.000Z07:00")})
}

// A Client calls the engine at URL.
type Client struct {
	URL    config.URL
	Secret config.Secret
	HTTP   *http.Client // nil means a client with a timeout of 10 s that follows no redirects
}

// Health returns an error unless the engine runs. It needs no secret.
func (c Client) Health(ctx context.Context) error {
	var s Status
	if err := c.get(ctx, "healthz", "", &s); err != nil {
		return err
	}
	if s.Status != "ok" {
		return errors.New("engine healthz: the answer is not the engine's")
	}
	return nil
}

// Status returns the engine's status. The error is [ErrKey] if the engine rejects the secret.
func (c Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.get(ctx, "internal/status", c.Secret, &s)
	return s, err
}

// get decodes the engine's answer into body.
func (c Client) get(ctx context.Context, path string, key config.Secret, body any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL.URL().JoinPath(path).String(), nil)
	if err != nil {
		return fmt.Errorf("engine %s: %w", path, err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	res, err := c.http().Do(req)
	if err != nil {
		return fmt.Errorf("engine %s: %w", path, err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return fmt.Errorf("engine %s: %w", path, ErrKey)
	default:
		return fmt.Errorf("engine %s: %s", path, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswerBytes)).Decode(body); err != nil {
		return fmt.Errorf("engine %s: %w", path, err)
	}
	return nil
}

var defaultHTTP = &http.Client{
	Timeout: 10 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // must not send the secret elsewhere
	},
}

func (c Client) http() *http.Client {
	if c.HTTP == nil {
		return defaultHTTP
	}
	return c.HTTP
}
