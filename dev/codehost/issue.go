package codehost

import (
	"net/http"
	"strconv"
)

// placeholder shows a placeholder for issues and pull requests, to which the runs of the demonstration
// link. This host has none.
func placeholder(what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("number"))
		if err != nil || n < 1 {
			refuse(w, http.StatusNotFound, "Not Found")
			return
		}
		title := r.PathValue("owner") + "/" + r.PathValue("name") + " #" + strconv.Itoa(n)
		show(w, http.StatusOK, message{title, "A code host for development has no " + what + ". A real one shows it here."})
	}
}
