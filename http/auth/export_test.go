package auth

import "time"

// Limit sets the timeout of each call to the provider.
func (p *Provider) Limit(d time.Duration) { p.client.Timeout = d }
