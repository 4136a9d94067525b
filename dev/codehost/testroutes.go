package codehost

import (
	"encoding/json"
	"net/http"

	"svc/http/reply"
)

// testRoutes are for tests: they count effects, and with faults on they make the host fail.
func (h *host) testRoutes(mux *http.ServeMux) {
	mux.Handle("GET /_test/counts", h.counts)
	if h.faults == nil {
		return
	}
	mux.HandleFunc("GET /_test/faults", h.faults.show)
	mux.HandleFunc("POST /_test/faults", h.faults.add)
	mux.HandleFunc("DELETE /_test/faults", h.faults.clear)
	mux.HandleFunc("PATCH /_test/repos/{owner}/{name}", h.patchRecord)
}

// patchRecord changes what GitHub's interface does not: who may push, and the rules of branches.
func (h *host) patchRecord(w http.ResponseWriter, r *http.Request) {
	repo, known := h.repositories.find(r.PathValue("owner") + "/" + r.PathValue("name"))
	if !known {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	var in struct {
		Writers *[]string
		Rules   *[]object
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	repo.mu.Lock()
	defer repo.mu.Unlock()
	if in.Writers != nil {
		repo.Writers = append([]string{}, *in.Writers...)
	}
	if in.Rules != nil {
		repo.Rules = append([]object{}, *in.Rules...)
	}
	if err := repo.save(); err != nil {
		reply.Error(w, r, h.log, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
