package codehost

import (
	"net/http"
	"strconv"
)

// theirs shows where an issue or a pull request of a repository would be: this host has none,
// and the demonstration's runs lead here.
func theirs(what string) http.HandlerFunc {
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
