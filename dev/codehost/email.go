package codehost

import (
	"fmt"
	"net/http"
	"strconv"

	"svc/http/reply"
)

type email struct {
	Email      string  `json:"email"`
	Primary    bool    `json:"primary"`
	Verified   bool    `json:"verified"`
	Visibility *string `json:"visibility"` // null for what is neither primary nor public
}

// emails answers a page of addresses, 30 unless per_page says otherwise, and
// leads to the next one in the header Link.
func (h *host) emails(w http.ResponseWriter, r *http.Request) {
	p, ok := h.authenticate(w, r, "user", "user:email")
	if !ok {
		return
	}
	list := h.faults.emails(r.URL.Path, p.Emails)
	size, number := positive(r, "per_page", 30, 100), positive(r, "page", 1, 1000)
	begin := min((number-1)*size, len(list))
	end := min(begin+size, len(list))
	if end < len(list) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?per_page=%d&page=%d>; rel="next"`, base(r), r.URL.Path, size, number+1))
	}
	page := []email{}
	for _, e := range list[begin:end] {
		out := email{Email: e.Address, Primary: e.Primary, Verified: e.Verified}
		if e.Primary || e.Public {
			out.Visibility = visibility(e)
		}
		page = append(page, out)
	}
	reply.JSON(w, http.StatusOK, page)
}

func visibility(e Email) *string {
	text := "private"
	if e.Public {
		text = "public"
	}
	return &text
}

// positive reads a number of the query, as GitHub does: what is none is as
// good as left out.
func positive(r *http.Request, name string, fallback, most int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 {
		return fallback
	}
	return min(n, most)
}
