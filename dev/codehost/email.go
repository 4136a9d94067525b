package codehost

import (
	"fmt"
	"net/http"

	"svc/dev/codehost/api"
	"svc/dev/codehost/people"
	"svc/http/reply"
)

type email struct {
	Email      string  `json:"email"`
	Primary    bool    `json:"primary"`
	Verified   bool    `json:"verified"`
	Visibility *string `json:"visibility"` // null if neither primary nor public
}

// emails returns a page of addresses, 30 by default, with a Link header to the next page.
func (h *host) emails(w http.ResponseWriter, r *http.Request) {
	p, ok := h.authenticate(w, r, "user", "user:email")
	if !ok {
		return
	}
	list := p.Emails
	size, number := api.PositiveParam(r, "per_page", 30, 100), api.PositiveParam(r, "page", 1, 1000)
	begin := min((number-1)*size, len(list))
	end := min(begin+size, len(list))
	if end < len(list) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?per_page=%d&page=%d>; rel="next"`, api.Base(r), r.URL.Path, size, number+1))
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

func visibility(e people.Email) *string {
	text := "private"
	if e.Public {
		text = "public"
	}
	return &text
}
