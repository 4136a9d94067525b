// Package client asks the engine. It is all that other services link of the engine,
// and has the wire types that both sides speak.
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

// ErrKey is the engine's refusal of the client's secret: the REST service
// and the engine hold different values of SVC_ENGINE_SHARED_SECRET.
var ErrKey = errors.New("the engine refuses the shared secret")

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 1 << 20

// A Status is what GET /internal/status answers.
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
	HTTP   *http.Client // nil: one that gives a call 10 s and follows no redirect
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

// Status returns what the engine says about itself, or [ErrKey].
func (c Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.get(ctx, "internal/status", c.Secret, &s)
	return s, err
}

// get reads the answer of the engine into body.
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
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(body); err != nil {
		return fmt.Errorf("engine %s: %w", path, err)
	}
	return nil
}

var defaultHTTP = &http.Client{
	Timeout: 10 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the secret goes to the engine and nowhere else
	},
}

func (c Client) http() *http.Client {
	if c.HTTP == nil {
		return defaultHTTP
	}
	return c.HTTP
}
