package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// placeholders replaces values that differ between runs. Ids of the seeded database get their name, such as
// <member vera@acme>. Other ids, tokens and token tails are numbered in order of appearance. For cookies,
// cursors and positions the last value is remembered, so that later requests can contain it.
type placeholders struct {
	byValue map[string]string // placeholders by value
	values  map[string]string // values by placeholder
	numbers map[string]int
}

func newPlaceholders(s *fixture) *placeholders {
	p := &placeholders{byValue: map[string]string{}, values: map[string]string{}, numbers: map[string]int{}}
	for value, name := range maps.All(s.names) {
		p.put(value, "<"+name+">")
	}
	for account, token := range s.tokens {
		p.put(token, "<token of "+account+">")
	}
	return p
}

// put registers a value. A value in quotes, such as a tail, is replaced only where a body has it in quotes.
func (p *placeholders) put(value, placeholder string) {
	p.byValue[value], p.values[placeholder] = placeholder, strings.Trim(value, `"`)
}

// fill replaces placeholders by values.
func (p *placeholders) fill(text string) string {
	return placeholderPattern.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := p.values[name]; ok {
			return value
		}
		return name
	})
}

var placeholderPattern = regexp.MustCompile(`<[^<>\n]+>`)

// hide replaces values in a body by placeholders. JSON is indented first.
func (p *placeholders) hide(body string) string {
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(body), "", "  ") == nil {
		body = strings.TrimSpace(indented.String())
	}
	for _, field := range volatileFields {
		body = field.pattern.ReplaceAllStringFunc(body, func(found string) string {
			if field.remembered {
				p.values[field.name] = field.pattern.FindStringSubmatch(found)[2]
			}
			return field.pattern.ReplaceAllString(found, "${1}"+field.name)
		})
	}
	body = p.hideParameters(strings.ReplaceAll(body, `\u0026`, "&"))
	body = p.number(body, "id", idPattern)
	body = p.number(body, "token", tokenPattern)
	for value, name := range p.byValue {
		if strings.HasPrefix(value, `"`) { // a tail
			body = strings.ReplaceAll(body, value, `"`+name+`"`)
		}
	}
	return body
}

var (
	idPattern      = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	volatileFields = []struct {
		pattern    *regexp.Regexp // the second group is the value
		name       string
		remembered bool
	}{
		{regexp.MustCompile(`("(?:lastActiveAt|lastUsedAt)": )(null|"` + timePattern + `")`), `"<time or null>"`, false},
		{regexp.MustCompile(`(")` + timePattern), `<time>`, false},
		{regexp.MustCompile(`("(?:expiresAt|notBefore|acceptBy|deadline)": ")(\d{4}-\d\d-\d\dT[^"]+)`), `<time>`, false}, // as stored in events
		{regexp.MustCompile(`("turn": )(\d+)`), `<turn>`, false},
		{regexp.MustCompile(`("(?:from|to)": ")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)`), `<time>`, false}, // as stored in events
		{regexp.MustCompile(`("(?:sha|headSha)": ")([0-9a-f]{40})`), `<sha>`, true},
		{regexp.MustCompile(`("secret": ")([A-Z2-7]{26})`), `<secret>`, false},
		{regexp.MustCompile(`("requestId": )("[^"]+")`), `"<request id>"`, false},
		{regexp.MustCompile(`("seq": |(?m:^"?)|"path": "/seq",\s+"value": |"(?:size|head)": )(\d+)`), `<seq>`, false}, // the first column of CSV
		{regexp.MustCompile(`("field": "upTo",\s+"from": null,\s+"to": )(\d+)`), `"<seq>"`, false},
		{regexp.MustCompile(`(,)` + timePattern), `<time>`, false},
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

// hideParameters replaces the variable parts of URLs by placeholders, and remembers their values.
func (p *placeholders) hideParameters(text string) string {
	for name, pattern := range urlParameters {
		if m := pattern.FindStringSubmatch(text); m != nil {
			p.values[name] = m[2]
			text = pattern.ReplaceAllString(text, "${1}"+name)
		}
	}
	return text
}

var urlParameters = map[string]*regexp.Regexp{
	"<code host>": regexp.MustCompile(`(http://)(127\.0\.0\.1:\d+)`),
	"<state>":     regexp.MustCompile(`([?&]state=)([A-Za-z0-9_-]{43})`),
	"<challenge>": regexp.MustCompile(`([?&]code_challenge=)([^&"]+)`),
	"<request>":   regexp.MustCompile(`([?&]request_id=)([^&"]+)`),
	"<code>":      regexp.MustCompile(`([?&]code=)([^&"]+)`),
}

// timePattern matches times in answers.
const timePattern = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`

// number replaces what a pattern matches by placeholders that are numbered in order of appearance. noun is
// id or token.
func (p *placeholders) number(body, noun string, pattern *regexp.Regexp) string {
	return pattern.ReplaceAllStringFunc(body, func(found string) string {
		if _, known := p.byValue[found]; !known {
			p.numbers[noun]++
			p.put(found, fmt.Sprintf("<%s %d>", noun, p.numbers[noun]))
			if noun == "token" {
				p.put(`"`+found[len(found)-4:]+`"`, fmt.Sprintf("<tail %d>", p.numbers[noun]))
			}
		}
		return p.byValue[found]
	})
}

var (
	cookiePattern = regexp.MustCompile(`^better-auth\.(session_token|state)=([^;]+);`)
	numberPattern = regexp.MustCompile(`\d+`)
	maxAgePattern = regexp.MustCompile(`Max-Age=604\d{3}`)
)

// header replaces what differs between runs in the value of a header.
func (p *placeholders) header(name, value string) string {
	switch name {
	case "Content-Disposition":
		return numberPattern.ReplaceAllString(value, "<seq>")
	case "X-Svc-Poll-After": // depends on load
		return "<seconds>"
	case "X-Svc-Position":
		p.values["<position>"] = value
		return "<position>"
	case "Set-Cookie":
		if m := cookiePattern.FindStringSubmatch(value); m != nil {
			cookie := map[string]string{"session_token": "<cookie>", "state": "<state cookie>"}[m[1]]
			p.values[cookie] = m[2]
			value = strings.Replace(value, m[2], cookie, 1)
		}
		return maxAgePattern.ReplaceAllString(value, "Max-Age=<7 days>")
	case "ETag":
		p.values["<etag>"] = value
		return "<etag>"
	case "Location":
		if strings.Contains(value, "/login/oauth/authorize?") {
			p.values["<authorize>"] = value
		}
		return p.number(p.hideParameters(value), "id", idPattern)
	}
	return value
}
