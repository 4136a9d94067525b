package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A bad is an invalid request and the answer that it must get: status, code and, for a validation error,
// the field that details must name.
type bad struct {
	as, line, body string
	headers        []string
	want           string
}

const (
	asReader      = "reader"
	asOwner       = "ada@acme"
	listRuns      = "GET /api/v1/runs?status=active"
	createAccount = "POST /api/v1/service-accounts"
)

// testBadInput sends malformed requests. Each answer names the mistake, none is a 500, and no event is appended.
func testBadInput(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	before := v.logHeads(t)
	leo := "PATCH /api/v1/members/" + s.id(t, "member leo@acme")
	for name, list := range map[string][]bad{
		"paths":    badPaths(),
		"queries":  badQueries(),
		"bodies":   badBodies(leo, s.id(t, "repo acme/web")),
		"headers":  badHeaders(),
		"position": badPositions(),
	} {
		t.Run(name, func(t *testing.T) {
			for _, b := range list {
				v.requireRefused(t, b)
			}
		})
	}
	t.Run("malformed HTTP", func(t *testing.T) { testMalformedHTTP(t, v) })
	t.Run("body sizes", func(t *testing.T) { testBodySizes(t, v) })
	require.Equal(t, before, v.logHeads(t), "something was stored")
}

// requireRefused sends the request and requires the answer. Messages must not repeat those of Go's packages.
func (v *service) requireRefused(t *testing.T, b bad) {
	t.Helper()
	a := v.ask(t, b.as, b.line, b.body, b.headers...)
	want := strings.Fields(b.want)
	about := fmt.Sprintf("%.200s %.200q %.100q: %.500s", b.line, b.body, b.headers, a.body)
	require.Equal(t, strings.Join(want[:min(2, len(want))], " "), a.statusAndCode(), about)
	if len(want) > 2 {
		require.Contains(t, a.at(t, "details"), want[2], about)
	}
	require.NotContains(t, a.body, "json:", "a message of encoding/json")
	require.NotContains(t, a.body, "invalid character", "a message of encoding/json")
}

func badPaths() (list []bad) {
	for path, want := range map[string]string{
		"/api/v1/runs/%00":                            "422 validation_failed path",
		"/api/v1/runs/%FF":                            "422 validation_failed path",
		"/api/v1/runs/%ff":                            "404 not_found",
		"/api/v1/r%75ns":                              "404 not_found",
		"/api/v1/farm/%61gent":                        "404 not_found",
		"/api/v1/farm/registrations%2fself":           "404 not_found",
		"/%69nstall.sh":                               "404 not_found",
		"/api/v1/runs/a%00b":                          "422 validation_failed path",
		"/api/v1/runs/..%2f":                          "404 not_found",
		"/api/v1/runs/..%2f..%2fmembers":              "404 not_found",
		"/api/v1/runs/%2e%2e/members":                 "404 not_found",
		"/api/v1/runs/.":                              "404 run_not_found",
		"/api/v1/runs/..":                             "404 run_not_found",
		"/api/v1/runs/%20":                            "404 run_not_found",
		"/api/v1/runs/" + noID + "/":                  "404 not_found",
		"/api/v1/runs/" + noID + "0":                  "404 run_not_found",
		"/api/v1/runs/" + noID[:35]:                   "404 run_not_found",
		"/api/v1/runs/" + noID[:35] + "g":             "404 run_not_found",
		"/api/v1/runs/{" + noID + "}":                 "404 run_not_found",
		"/api/v1/runs/" + strings.Repeat("a", 65):     "422 validation_failed id",
		"/api/v1/runs/" + strings.Repeat("a", 30_000): "422 validation_failed id",
		"/api/v1/runs/1'or'1'='1":                     "404 run_not_found",
		"/api/v1/runs/" + noID + "/cancel/now":        "404 not_found",
		"/API/v1/runs?status=active":                  "404 not_found",
		"/api/v1/Runs?status=active":                  "404 not_found",
		"/api/v2/runs?status=active":                  "404 not_found",
		"//api/v1/runs?status=active":                 "404 not_found",
		"/api/v1/runs;a=b?status=active":              "404 not_found",
		"/api/v1/runs%3fstatus=active":                "404 not_found",
		"/internal/runs":                              "404 not_found",
		"/api":                                        "404 not_found",
		"/api/docs/":                                  "404 not_found",
		"/api/docs/nothing.js":                        "404 not_found",
		"/api/docs/..%2f..%2fhealth/live":             "404 not_found",
		"/api/auth":                                   "404 not_found",
		"/api/auth/":                                  "404 NOT_FOUND",
		"/api/auth/%00":                               "422 validation_failed path",
		"/health":                                     "404 not_found",
		"/health/":                                    "404 not_found",
		"/metrics":                                    "404 not_found",
	} {
		list = append(list, bad{as: asReader, line: "GET " + path, want: want})
	}
	for _, line := range []string{
		"POST /api/v1/runs", "DELETE /api/v1/runs/" + noID, "PUT /api/v1/members/" + noID, "POST /api/v1/members/" + noID,
		"GET /api/v1/service-accounts/" + noID + "/rotate", "PATCH /api/v1/audit", "TRACE /api/v1/runs", "OPTIONS /api/v1/runs",
		"POST /health/live", "DELETE /api/openapi.json", "NONSENSE /api/v1/runs", "OPTIONS /health/ready",
	} {
		list = append(list, bad{as: asOwner, line: line, want: "405 method_not_allowed"})
	}
	return list
}

func badQueries() (list []bad) {
	for query, want := range map[string]string{
		"":                          "422 validation_failed status",
		"status=":                   "422 validation_failed status",
		"status":                    "422 validation_failed status",
		"status=Active":             "422 validation_failed status",
		"status=active%20":          "422 validation_failed status",
		"status=active,terminal":    "422 validation_failed status",
		"status[]=active":           "422 validation_failed",
		"Status=active":             "422 validation_failed",
		"status=active&limit=0":     "422 validation_failed limit",
		"status=active&limit=101":   "422 validation_failed limit",
		"status=active&limit=-1":    "422 validation_failed limit",
		"status=active&limit=x":     "422 validation_failed limit",
		"status=active&limit=1e3":   "422 validation_failed limit",
		"status=active&limit=1.5":   "422 validation_failed limit",
		"status=active&limit=0x10":  "422 validation_failed limit",
		"status=active&limit=%2010": "422 validation_failed limit",
		"status=active&limit=9999999999999999999999":              "422 validation_failed limit",
		"status=active&limit=9223372036854775808":                 "422 validation_failed limit",
		"status=active&offset=-1":                                 "422 validation_failed offset",
		"status=active&offset=100001":                             "422 validation_failed offset",
		"status=active&offset=x":                                  "422 validation_failed offset",
		"status=active&offset=-9223372036854775808":               "422 validation_failed offset",
		"status=active&offset=99999999999999999999":               "422 validation_failed offset",
		"status=active&repo=acme":                                 "422 validation_failed repo",
		"status=active&repo=" + noID + "0":                        "422 validation_failed repo",
		"status=active&repo={" + noID + "}":                       "422 validation_failed repo",
		"status=active&repo=urn:uuid:" + noID:                     "422 validation_failed repo",
		"status=active&repo=" + strings.ReplaceAll(noID, "-", ""): "422 validation_failed repo",
		"status=active&q=" + strings.Repeat("a", 201):             "422 validation_failed q",
		"status=active&q=%00":                                     "422 validation_failed q",
		"status=active&q=%ff":                                     "422 validation_failed q",
		"status=active&q=%ed%a0%80":                               "422 validation_failed q", // half a surrogate pair
		"status=active&q=%zz":                                     "422 validation_failed query",
		"status=active&q=%":                                       "422 validation_failed query",
		"status=active;q=a":                                       "422 validation_failed query",
		"status=active&%00=a":                                     "422 validation_failed query",
		"status=active&%ff=a":                                     "422 validation_failed query",
		"status=active&color=red":                                 "422 validation_failed color",
		"status=active&access_token=a":                            "422 validation_failed access_token",
		"status=active&=a":                                        "422 validation_failed",
	} {
		list = append(list, bad{as: asReader, line: strings.TrimSuffix("GET /api/v1/runs?"+query, "?"), want: want})
	}
	for query, want := range map[string]string{
		"cursor=abc":                         "422 validation_failed cursor",
		"cursor=0":                           "422 validation_failed cursor",
		"cursor=-1":                          "422 validation_failed cursor",
		"cursor=1.5":                         "422 validation_failed cursor",
		"cursor=99999999999999999999":        "422 validation_failed cursor",
		"cursor=999999999999999999999":       "422 validation_failed cursor",
		"cursor=%00":                         "422 validation_failed cursor",
		"from=yesterday":                     "422 validation_failed from",
		"to=2026-01-01":                      "422 validation_failed to",
		"from=2026-13-01T00:00:00Z":          "422 validation_failed from",
		"from=10000-01-01T00:00:00Z":         "422 validation_failed from",
		"actorType=alien":                    "422 validation_failed actorType",
		"action=" + strings.Repeat("a", 501): "422 validation_failed action",
		"actor=" + strings.Repeat("a", 1001): "422 validation_failed actor",
		"target=%00":                         "422 validation_failed target",
		"status=active":                      "422 validation_failed status",
	} {
		list = append(list, bad{as: asOwner, line: "GET /api/v1/audit?" + query, want: want})
	}
	return append(list,
		bad{as: asOwner, line: "GET /api/v1/audit/export?format=csv&leaf=true", want: "422 validation_failed leaf"},
		bad{as: asOwner, line: "GET /api/v1/audit/export?format=ndjson&leaf=2", want: "422 validation_failed leaf"},
		bad{as: asOwner, line: "GET /api/v1/members?role=king", want: "422 validation_failed role"},
		bad{as: asOwner, line: "GET /api/v1/members?role=king", want: "422 validation_failed role"},
		bad{as: asOwner, line: "GET /api/v1/members?offset=1001", want: "422 validation_failed offset"},
		bad{as: asOwner, line: "GET /api/v1/members?cursor=zoe", want: "422 validation_failed cursor"},
		bad{as: asOwner, line: "GET /api/v1/members?offset=1&cursor=AZqipygAcACAAAAAAAAABHpvZSBicmFuZHQ", want: "422 validation_failed offset"},
		bad{as: asOwner, line: "GET /api/v1/runs/" + noID + "?x=1", want: "422 validation_failed x"},
		bad{as: asOwner, line: "PATCH /api/v1/workspace?name=x", body: `{"name":"y"}`, want: "422 validation_failed name"},
	)
}

func badHeaders() []bad {
	const good = `{"name":"a-bot","scopes":["api.read"]}`
	var list []bad
	for _, media := range []string{
		"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml",
		"application/jsonp", "application/json-patch+json", "json", "*/*",
	} {
		list = append(list, bad{as: asOwner, line: createAccount, body: good, headers: []string{"Content-Type: " + media},
			want: "415 unsupported_media_type"})
	}
	for _, key := range []string{strings.Repeat("k", 201), "key\xff"} {
		list = append(list, bad{as: asOwner, line: createAccount, body: good, headers: []string{"Idempotency-Key: " + key},
			want: "422 validation_failed Idempotency-Key"})
	}
	for _, coding := range []string{"gzip", "br", "GZIP, identity", "x"} {
		list = append(list, bad{as: asOwner, line: createAccount, body: good, headers: []string{"Content-Encoding: " + coding},
			want: "415 unsupported_media_type"})
	}
	for _, name := range []string{"X-Svc-Tenant", "Idempotency-Key", "X-Svc-Min-Position"} {
		list = append(list, bad{as: "ada", line: listRuns, headers: []string{name + ": 1", name + ": 1"}, want: "422 validation_failed " + name})
	}
	return append(list,
		bad{as: "nobody", line: listRuns, headers: []string{"Authorization: Bearer " + strings.Repeat("a", 30_000)},
			want: "401 service_token_invalid"},
		bad{as: "nobody", line: listRuns, headers: []string{"Authorization: Bearer tok_svc_\xff\xfe"}, want: "401 service_token_invalid"},
		bad{as: "nobody", line: listRuns, headers: []string{"Cookie: " + cookieName + "=%00.%ff"}, want: "401 unauthenticated"},
		bad{as: "nobody", line: listRuns, headers: []string{"Cookie: " + cookieName + "=%zz"}, want: "401 unauthenticated"},
		bad{as: "nobody", line: listRuns, headers: []string{"Cookie: " + cookieName + "=" + strings.Repeat("a.", 10_000)},
			want: "401 unauthenticated"},
		bad{as: "nobody", line: listRuns, headers: []string{"X-Huge: " + strings.Repeat("a", 100<<10)}, want: "431"},
	)
}

func badPositions() (list []bad) {
	for _, position := range []string{"x", "-1", "1.5", "1e3", "99999999999999999999", "0x10", "١", "1 2"} {
		for _, line := range []string{listRuns, "GET /api/v1/runs/" + noID} {
			list = append(list, bad{as: asReader, line: line, headers: []string{"X-Svc-Min-Position: " + position},
				want: "422 validation_failed X-Svc-Min-Position"})
		}
	}
	return list
}

// testMalformedHTTP sends malformed HTTP, most of which net/http answers itself.
func testMalformedHTTP(t *testing.T, v *service) {
	for text, want := range map[string]int{
		"GET /api/v1/runs/\x00 HTTP/1.1\nHost: a\n\n":                                                 http.StatusBadRequest,
		"GET /api/v1/runs?q=\x00 HTTP/1.1\nHost: a\n\n":                                               http.StatusBadRequest,
		"GET /api/v1/%zz HTTP/1.1\nHost: a\n\n":                                                       http.StatusBadRequest,
		"GET /api/v1/runs HTTP/1.1\n\n":                                                               http.StatusBadRequest,
		"GET /api/v1/runs HTTP/1.1\nHost: a\nX-Svc-Tenant: a\x00b\n\n":                                http.StatusBadRequest,
		"POST /api/v1/service-accounts HTTP/1.1\nHost: a\nContent-Length: -1\n\n":                     http.StatusBadRequest,
		"POST /api/v1/service-accounts HTTP/1.1\nHost: a\nContent-Length: 2\nContent-Length: 3\n\n{}": http.StatusBadRequest,
		"POST /api/v1/service-accounts HTTP/1.1\nHost: a\nTransfer-Encoding: gzip\n\n":                http.StatusNotImplemented,
		"GET /api/v1/runs/\xff HTTP/1.1\nHost: a\n\n":                                                 http.StatusUnprocessableEntity,
		"GET /api/v1/runs?q=\xff HTTP/1.1\nHost: a\n\n":                                               http.StatusUnprocessableEntity,
		"GET http://elsewhere/api/v1/runs HTTP/1.1\nHost: a\n\n":                                      http.StatusUnauthorized,
		"CONNECT elsewhere:443 HTTP/1.1\nHost: a\n\n":                                                 http.StatusNotFound,
	} {
		require.Equal(t, want, v.sendRaw(t, text).status, "%q", text)
	}
}

// testBodySizes shows that bodies of 2 MiB are refused, and bodies of 16 KiB are read.
func testBodySizes(t *testing.T, v *service) {
	const admin = "ada@acme"
	huge := `{"name":"` + strings.Repeat("a", 2<<20) + `"}`
	v.ask(t, admin, createAccount, huge).is(t, "413 body_too_large")
	v.ask(t, "nobody", "POST /api/auth/sign-in/email", huge).is(t, "413 body_too_large")
	v.ask(t, asReader, listRuns, huge).is(t, "413 body_too_large")
	v.ask(t, admin, createAccount, strings.Repeat(" ", 16<<10-2)+"{}").is(t, "422 validation_failed")

	chunked := func(line string, n int) string {
		head := line + " HTTP/1.1\nHost: a\nCookie: " + cookieName + "=" + v.fixture.sessions["ada"] + "\nX-Svc-Tenant: acme\n" +
			"Content-Type: application/json\nTransfer-Encoding: chunked\n\n"
		return head + strings.Repeat("400\n"+strings.Repeat(" ", 0x400)+"\n", n/0x400) + "2\n{}\n0\n\n"
	}
	v.sendRaw(t, chunked(createAccount, 2<<20)).is(t, "413 body_too_large")
	v.sendRaw(t, chunked("POST /api/auth/sign-in/email", 2<<20)).is(t, "413 body_too_large")
	v.sendRaw(t, chunked(createAccount, 1<<13)).is(t, "422 validation_failed")
	v.sendRaw(t, strings.Replace(chunked(createAccount, 1<<13), "400", "no number", 1)).is(t, "422 validation_failed")
}
