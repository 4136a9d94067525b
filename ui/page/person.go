package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"

	"svc/ui/client"
)

// A browser has one session for all its tabs, so somebody may sign in in one while another still shows a page of somebody
// else. Each request of a page names whom it was made for: htmx by the header, forms by the field. The app refuses a request
// of a page that was made for anybody but who is signed in now.
const (
	madeForHeader  = "X-Svc-Made-For"
	madeForField   = "made-for"
	signedInHeader = "X-Signed-In" // of the refusal: the name of who is signed in, as JSON
)

// loadPerson reads who is signed in.
func (v *Visit) loadPerson() error {
	person, ok, err := v.API.Person(v.Context())
	if err == nil && !ok {
		err = &client.Refused{Status: http.StatusUnauthorized}
	}
	if err == nil {
		v.Person = person
	}
	return err
}

// refuseOthers answers a request of a page that was made for another person, and changes nothing. done is false for other
// requests. A public route reads who is signed in only if a page asks on behalf of somebody.
func (a *App) refuseOthers(w http.ResponseWriter, v *Visit) (done bool) {
	madeFor := cmp.Or(v.Header.Get(madeForHeader), v.PostForm.Get(madeForField))
	if madeFor == "" {
		return false
	}
	if v.Person.User.ID == "" && v.loadPerson() != nil || v.Person.User.ID == madeFor {
		return false // what needs a person is refused by the service
	}
	a.setCookies(w, v)
	if v.FromHTMX() {
		name, err := json.Marshal(v.Person.User.Name)
		if err != nil {
			name = []byte(`""`) // never: strings always encode
		}
		w.Header().Set(signedInHeader, ascii(string(name)))
		w.Header().Set("HX-Reswap", "none")
		w.WriteHeader(http.StatusPreconditionFailed)
		return true
	}
	a.write(w, v, Page{
		Title: "You are signed in as " + v.Person.User.Name, Main: otherPersonPage(v, v.backAddress(v.route)),
		Status: http.StatusPreconditionFailed,
	})
	return true
}

// withPerson adds to each form of a page the field that names whom the page was made for.
func withPerson(text []byte, id string) []byte {
	if id == "" {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	field := []byte(`<input type="hidden" name="` + madeForField + `" value="` + id + `"/>`)
	for {
		at := bytes.Index(text, []byte("<form "))
		if at < 0 {
			return append(out, text...)
		}
		end := at + tagEnd(text[at:])
		out = append(out, text[:end]...)
		if bytes.Contains(text[at:end], []byte(` method="post"`)) {
			out = append(out, field...)
		}
		text = text[end:]
	}
}

// tagEnd returns the length of the tag that text begins with. A > in quotes does not end it.
func tagEnd(text []byte) int {
	quoted := false
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '>' && !quoted:
			return i + 1
		}
	}
	return len(text)
}
