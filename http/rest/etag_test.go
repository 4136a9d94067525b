package rest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestIfNoneMatch(t *testing.T) {
	const tag = `"a-_1"`
	for header, want := range map[string]bool{
		"": false, tag: true, `W/"a-_1"`: true, "*": false, `"b", "a-_1-gzip"`: true, `"b", "a-_1"`: true, `"b",W/"a-_1"`: true,
		`"b"`: false, `a-_1`: false, `"a-_"`: false, `"a-_1`: false, ",": false, `"a-_1."`: false, `"a-_1.!"`: false,
	} {
		found := matchETag(header, time.Now(), func(time.Time) string { return tag })
		require.Equal(t, want, found == tag || found == `"a-_1-gzip"`, header)
	}
}

// An ETag expires when its dashboard changes without an event.
func TestETagExpiresWhenRunGetsStuck(t *testing.T) {
	workspace, until := events.NewID(time.Now()), time.UnixMilli(1_790_000_000_123)
	name := func(at time.Time) string { return etag(workspace, "7", "up", at) }
	tag := name(until)
	require.Equal(t, tag, matchETag(`"other", `+tag, until.Add(-time.Millisecond), name))
	require.Empty(t, matchETag(tag, until, name))
	moved := func(at time.Time) string { return etag(workspace, "8", "up", at) }
	require.Empty(t, matchETag(tag, until.Add(-time.Millisecond), moved))
	require.NotEqual(t, tag, name(until.Add(time.Millisecond)), "nobody lengthens it")
	require.Equal(t, name(time.Time{}), matchETag(name(time.Time{}), until, name))
}
