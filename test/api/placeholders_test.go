package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// placeholders names what differs from run to run. Ids of the seeded database
// are named after what they are of; other ids, tokens and tails are counted as
// they appear. Of cookies, cursors and positions the last one is remembered.
type placeholders struct {
	of     map[string]string // placeholder by value
	value  map[string]string // and the reverse
	counts map[string]int
}

func newPlaceholders(s *site) *placeholders {
	p := &placeholders{of: map[string]string{}, value: map[string]string{}, counts: map[string]int{}}
	for value, name := range maps.All(s.names) {
		p.put(value, "<"+name+">")
	}
	for account, token := range s.tokens {
		p.put(token, "<token of "+account+">")
	}
	return p
}

// put remembers a value. What is quoted, as tails are, is quoted in text.
func (p *placeholders) put(value, placeholder string) {
	p.of[value], p.value[placeholder] = placeholder, strings.Trim(value, `"`)
}

// fill puts values in the place of their names.
func (p *placeholders) fill(text string) string {
	return placeholderForm.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := p.value[name]; ok {
			return value
		}
		return name
	})
}

var placeholderForm = regexp.MustCompile(`<[^<>\n]+>`)

// hide puts names in the place of values, in a body. JSON is spread over lines.
func (p *placeholders) hide(body string) string {
	var spread bytes.Buffer
	if json.Indent(&spread, []byte(body), "", "  ") == nil {
		body = strings.TrimSpace(spread.String())
	}
	for _, field := range volatile {
		body = field.form.ReplaceAllStringFunc(body, func(found string) string {
			if field.remembered {
				p.value[field.name] = field.form.FindStringSubmatch(found)[2]
			}
			return field.form.ReplaceAllString(found, "${1}"+field.name)
		})
	}
	body = p.hideParameters(strings.ReplaceAll(body, `\u0026`, "&"))
	body = p.count(body, "id", idForm)
	body = p.count(body, "token", tokenForm)
	for value, name := range p.of {
		if strings.HasPrefix(value, `"`) { // a tail
			body = strings.ReplaceAll(body, value, `"`+name+`"`)
		}
	}
	return body
}

var (
	idForm   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	volatile = []struct {
		form       *regexp.Regexp // the second group is the value
		name       string
		remembered bool
	}{
		{regexp.MustCompile(`("(?:lastActiveAt|lastUsedAt)": )(null|"` + timeForm + `")`), `"<time or null>"`, false},
		{regexp.MustCompile(`(")` + timeForm), `<time>`, false},
		{regexp.MustCompile(`("(?:expiresAt|notBefore|acceptBy|deadline)": ")(\d{4}-\d\d-\d\dT[^"]+)`), `<time>`, false}, // as an event keeps it
		{regexp.MustCompile(`("turn": )(\d+)`), `<turn>`, false},
		{regexp.MustCompile(`("(?:from|to)": ")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)`), `<time>`, false}, // as an event keeps it
		{regexp.MustCompile(`("(?:sha|headSha)": ")([0-9a-f]{40})`), `<sha>`, true},
		{regexp.MustCompile(`("requestId": )("[^"]+")`), `"<request id>"`, false},
		{regexp.MustCompile(`("seq": |(?m:^"?)|"path": "/seq",\s+"value": |"(?:size|head)": )(\d+)`), `<seq>`, false}, // in CSV it comes first
		{regexp.MustCompile(`("field": "upTo",\s+"from": null,\s+"to": )(\d+)`), `"<seq>"`, false},
		{regexp.MustCompile(`(,)` + timeForm), `<time>`, false},
		{regexp.MustCompile(`("(?:root|checkpoint|verifierKey)": )("[^"]+")`), `"<proof>"`, false},
		{regexp.MustCompile(`("(?:value|prior|sample|priorSample|workingMs|personMs|farmMs)": )(\d+(?:\.\d)?)`), `<number>`, false},
		{regexp.MustCompile(`("(?:from|to)": )("\d{4}-\d\d-\d\d")`), `"<day>"`, false},
		{regexp.MustCompile(`("(?:days|marks)": )(\[(?:\s+\{[^{}]+\},?)+\s+\])`), `<some of them>`, false},
		{regexp.MustCompile(`("(?:firstSeq|events)": )(\d+)`), `<number>`, false},
		{regexp.MustCompile(`("tookMs": )(\d+)`), `<milliseconds>`, false},
		{regexp.MustCompile(`("message": "PostgreSQL )(\d+(?:\.\d+)*)`), `<version>`, false},
		{regexp.MustCompile(`("series": )(\[(?:\s+\{\s+"date": "[0-9-]{10}",\s+"value": [^,]+,\s+"prior": [^}]+\},?)+\s+\])`),
			`<a value of each day>`, false},
		{regexp.MustCompile(`("nextCursor": ")(\d+)`), `<cursor>`, true},
		{regexp.MustCompile(`("(?:certificate|caCertificate)": )("-----BEGIN CERTIFICATE-----[^"]+")`), `"<certificate>"`, false},
		{regexp.MustCompile(`("serial": )("[0-9a-f]{32}")`), `"<serial>"`, false},
		{regexp.MustCompile(`("field": "serial",\s+"from": null,\s+"to": )("[0-9a-f]{32}")`), `"<serial>"`, false},
		{regexp.MustCompile(`("field": "(?:notAfter|expiresAt|expiredAt)",\s+"from": null,\s+"to": )("[^"]+")`), `"<time>"`, false},
		{regexp.MustCompile(`("ed25519:)([0-9A-Za-z+/=]+)`), `<key>`, false},
	}
)

// hideParameters hides what differs in an address, and remembers it.
func (p *placeholders) hideParameters(address string) string {
	for name, form := range parameters {
		if m := form.FindStringSubmatch(address); m != nil {
			p.value[name] = m[2]
			address = form.ReplaceAllString(address, "${1}"+name)
		}
	}
	return address
}

var parameters = map[string]*regexp.Regexp{
	"<code host>": regexp.MustCompile(`(http://)(127\.0\.0\.1:\d+)`),
	"<state>":     regexp.MustCompile(`([?&]state=)([A-Za-z0-9_-]{43})`),
	"<challenge>": regexp.MustCompile(`([?&]code_challenge=)([^&"]+)`),
	"<request>":   regexp.MustCompile(`([?&]request_id=)([^&"]+)`),
	"<code>":      regexp.MustCompile(`([?&]code=)([^&"]+)`),
}

// timeForm is the one form in which times are written.
const timeForm = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`

// count names what has a form, in the order in which it appears.
func (p *placeholders) count(body, what string, form *regexp.Regexp) string {
	return form.ReplaceAllStringFunc(body, func(found string) string {
		if _, known := p.of[found]; !known {
			p.counts[what]++
			p.put(found, fmt.Sprintf("<%s %d>", what, p.counts[what]))
			if what == "token" {
				p.put(`"`+found[len(found)-4:]+`"`, fmt.Sprintf("<tail %d>", p.counts[what]))
			}
		}
		return p.of[found]
	})
}

var (
	cookieForm = regexp.MustCompile(`^better-auth\.(session_token|state)=([^;]+);`)
	numberForm = regexp.MustCompile(`\d+`)
	maxAgeForm = regexp.MustCompile(`Max-Age=604\d{3}`)
)

// header hides what differs in a header.
func (p *placeholders) header(name, value string) string {
	switch name {
	case "Content-Disposition":
		return numberForm.ReplaceAllString(value, "<seq>")
	case "X-Svc-Poll-After": // more under load
		return "<seconds>"
	case "X-Svc-Position":
		p.value["<position>"] = value
		return "<position>"
	case "Set-Cookie":
		if m := cookieForm.FindStringSubmatch(value); m != nil {
			cookie := map[string]string{"session_token": "<cookie>", "state": "<state cookie>"}[m[1]]
			p.value[cookie] = m[2]
			value = strings.Replace(value, m[2], cookie, 1)
		}
		return maxAgeForm.ReplaceAllString(value, "Max-Age=<7 days>")
	case "ETag":
		p.value["<etag>"] = value
		return "<etag>"
	case "Location":
		if strings.Contains(value, "/login/oauth/authorize?") {
			p.value["<authorize>"] = value
		}
		return p.count(p.hideParameters(value), "id", idForm)
	}
	return value
}
