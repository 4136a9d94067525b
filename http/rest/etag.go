package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"svc/events"
	"svc/http/openapi"
)

// etag returns the ETag of a dashboard: a hash of everything that it is computed from. setup has what is
// in no database: the state of the dependencies and the settings of the farm. until is when the
// dashboard changes without an event, because a run becomes stuck; zero means never. The tag ends with
// until, so that matchETag can decide without reading the runs.
func etag(workspace events.ID, position, setup string, until time.Time) string {
	text := append(append([]byte(Version+" "), workspace[:]...), position...)
	end := ""
	if !until.IsZero() {
		end = "." + strconv.FormatInt(until.UnixMilli(), 36)
	}
	sum := sha256.Sum256(append(append(text, end...), setup...))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + end + `"`
}

// matchETag returns the tag in an If-None-Match header that is still current, "" if there is none. That
// of a compressed answer ends with [openapi.GzipTag]. * needs the current tag, for which the runs have
// to be read: see [middleware.MatchesETag]. current returns the current tag for a given until.
func matchETag(header string, now time.Time, current func(until time.Time) string) string {
	for sent := range strings.SplitSeq(header, ",") {
		sent = strings.TrimPrefix(strings.TrimSpace(sent), "W/")
		tag := strings.Replace(sent, openapi.GzipTag+`"`, `"`, 1)
		until, ok := changesAt(tag)
		if ok && (until.IsZero() || now.Before(until)) && tag == current(until) {
			return sent
		}
	}
	return ""
}

// changesAt returns the until of a tag, zero if it has none.
func changesAt(tag string) (until time.Time, ok bool) {
	_, end, found := strings.Cut(strings.Trim(tag, `"`), ".")
	if !found {
		return until, true
	}
	milli, err := strconv.ParseInt(end, 36, 64)
	return time.UnixMilli(milli), err == nil
}
