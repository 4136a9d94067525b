package middleware

import (
	"net/http"
	"net/url"

	"svc/fault"
	"svc/input"
)

// SameSite refuses requests that a page of another site made a browser send, and that may change
// something.
type SameSite struct {
	origin     string
	protection *http.CrossOriginProtection
}

// NewSameSite returns the protection of a service that browsers reach at a URL. Requests that match one
// of the patterns of [http.ServeMux] are not checked.
func NewSameSite(address string, bypass ...string) *SameSite {
	s := &SameSite{protection: http.NewCrossOriginProtection()}
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		s.origin = input.Origin(u)
	}
	for _, pattern := range bypass {
		s.protection.AddInsecureBypassPattern(pattern)
	}
	return s
}

// Check returns [fault.ErrCrossOrigin] for a request of another site. Browsers that send no
// Sec-Fetch-Site send Origin. It may name the service's own origin or the host of the request, which
// differ if a proxy rewrites Host.
func (s *SameSite) Check(r *http.Request) error {
	if r.Header.Get("Sec-Fetch-Site") == "" && s.origin != "" && r.Header.Get("Origin") == s.origin {
		return nil
	}
	if s.protection.Check(r) != nil {
		return fault.ErrCrossOrigin
	}
	return nil
}
