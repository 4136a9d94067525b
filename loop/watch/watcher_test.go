package watch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestHintDuringALookMakesAnother(t *testing.T) {
	web, acme := events.NewID(time.Now()), events.NewID(time.Now())
	l := looks{list: map[events.ID]bool{}}
	require.True(t, l.begin(web))
	require.False(t, l.begin(web))
	require.False(t, l.begin(web))
	require.True(t, l.begin(acme), "of another repository")
	require.True(t, l.end(web))
	require.False(t, l.end(web))
	require.True(t, l.begin(web))
}
