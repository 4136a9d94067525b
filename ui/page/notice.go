package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A notice survives the redirect after a form in a cookie, which the next page deletes. Its value is the position that
// the next page's reads must have reached, a dot and the text, and for a link two more lines: its address and its label.
const (
	noticeCookie = "notice"
	noticeMaxAge = 30   // seconds
	maxNotice    = 1000 // bytes of the escaped text
)

func (a *App) storeNotice(w http.ResponseWriter, v *Visit, n Notice) {
	if n.Text == "" {
		return
	}
	text := n.Text
	if n.Href != "" {
		text += "\n" + n.Href + "\n" + n.Label
	}
	text = strconv.FormatInt(v.API.Position(), 10) + "." + escapedNotice(text)
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: text, Path: "/", MaxAge: noticeMaxAge,
		Secure: a.Secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

func (a *App) takeNotice(w http.ResponseWriter, v *Visit) (n Notice) {
	c, err := v.Cookie(noticeCookie)
	if err != nil {
		return n
	}
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Path: "/", MaxAge: -1, Secure: a.Secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	position, text, _ := strings.Cut(c.Value, ".")
	if seq, err := strconv.ParseInt(position, 10, 64); err == nil {
		v.API.RequirePosition(seq)
	}
	text, _ = url.QueryUnescape(text) // "" if somebody else made the cookie
	var link string
	n.Text, link, _ = strings.Cut(text, "\n")
	if address, label, ok := strings.Cut(link, "\n"); ok {
		n.Href, n.Label = Local(address), label
	}
	return n
}

// escapedNotice returns the text as the cookie has it, without the characters beyond maxNotice.
func escapedNotice(text string) string {
	var escaped strings.Builder
	for _, r := range text {
		next := url.QueryEscape(string(r))
		if escaped.Len()+len(next) > maxNotice {
			break
		}
		escaped.WriteString(next)
	}
	return escaped.String()
}

// setHeader adds the notice to an answer to htmx, in a header that app.js reads.
func (n Notice) setHeader(h http.Header) {
	if n.Text == "" {
		return
	}
	text, err := json.Marshal(struct {
		Text  string `json:"text"`
		Bad   bool   `json:"bad"`
		Href  string `json:"href,omitempty"`
		Label string `json:"label,omitempty"`
		Undo  *Undo  `json:"undo,omitempty"`
	}{n.Text, n.Bad, n.Href, n.Label, n.Undo})
	if err != nil {
		return // never: strings always encode
	}
	h.Set("X-Notice", ascii(string(text)))
}

// ascii escapes the characters of JSON text that a header cannot contain.
func ascii(text string) string {
	var out []byte
	for _, r := range text {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return string(out)
}
