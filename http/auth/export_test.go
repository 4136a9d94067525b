package auth

import "time"

// Limit sets the timeout of each call to the provider.
func (p *Provider) Limit(d time.Duration) { p.client.Timeout = d }

// PublicCode returns the code that the browser is shown for an error.
func PublicCode(err error) string { return publicCode(err) }

// ErrNoEmail is a public error.
var ErrNoEmail error = errNoEmail
