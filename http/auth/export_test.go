package auth

import "time"

// Slug is what the workspace of a login is called.
var Slug = slug

// Limit sets how long each call to the provider may take.
func (p *Provider) Limit(d time.Duration) { p.client.Timeout = d }
