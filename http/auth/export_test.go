package auth

import "time"

// Limit sets how long each call to the provider may take.
func (p *Provider) Limit(d time.Duration) { p.client.Timeout = d }
