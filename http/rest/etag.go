package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"svc/events"
)

// etag names a dashboard by all that it is drawn from. until is when it changes by
// itself, as a run gets stuck; zero if that never happens. The name ends with it, so
// that whoever has the dashboard can be told without looking.
func etag(workspace events.ID, position int64, system string, until time.Time) string {
	text := strconv.AppendInt(append([]byte(Version+" "), workspace[:]...), position, 10)
	end := ""
	if !until.IsZero() {
		end = "." + strconv.FormatInt(until.UnixMilli(), 36)
	}
	sum := sha256.Sum256(append(append(text, end...), system...))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + end + `"`
}

// matching returns the name in If-None-Match of what name makes now, "" if it has none.
func matching(header string, now time.Time, name func(until time.Time) string) string {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
		if one == "*" {
			return name(time.Time{})
		}
		until, ok := changesAt(one)
		if ok && (until.IsZero() || now.Before(until)) && one == name(until) {
			return one
		}
	}
	return ""
}

// changesAt is when what an etag names changes by itself.
func changesAt(tag string) (until time.Time, ok bool) {
	_, end, found := strings.Cut(strings.Trim(tag, `"`), ".")
	if !found {
		return until, true
	}
	milli, err := strconv.ParseInt(end, 36, 64)
	return time.UnixMilli(milli), err == nil
}
