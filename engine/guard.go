package engine

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"svc/config"
)

// guarded passes requests to next, except those below /internal without the secret, which refuse
// answers. It compares hashes, so that timing reveals neither the secret nor its length.
func guarded(secret config.Secret, refuse, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(secret.Reveal()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/internal" || strings.HasPrefix(r.URL.Path, "/internal/") {
			got := sha256.Sum256([]byte(bearer(r)))
			if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				refuse.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// bearer returns the bearer token of the request, or "".
func bearer(r *http.Request) string {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return key
}
