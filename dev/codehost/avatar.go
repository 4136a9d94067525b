package codehost

import (
	"net/http"

	"svc/dev/codehost/api"
	"svc/dev/codehost/people"
)

// avatar draws a person's initials. For a login that no longer exists it draws the first letter,
// because applications keep the URL of a picture.
func (h *host) avatar(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("login")
	if !people.IsLogin(name) {
		api.Refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	p, _ := h.people.ByLogin(name)
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin") // other sites embed it
	people.DrawAvatar(w, p.Name, name)
}
