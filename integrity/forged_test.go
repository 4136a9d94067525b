package integrity_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/projections"
)

// handler returns what a process of the service decides commands with. It has nothing in memory.
func (s *site) handler(t *testing.T, logs *logCapture) *commands.Handler {
	t.Helper()
	log := store.New(s.db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	log.Authenticate(newRing(t))
	log.CheckLoads(newRing(t), s.prover.CheckSigned, slog.New(slog.NewTextHandler(logs, nil)))
	h := commands.New(log, time.Now)
	h.LogTo(slog.New(slog.NewTextHandler(logs, nil)))
	return h
}

// Commands are not decided from events that this service neither appended nor signed, also if the rows match them. They
// are decided from signed events whose MACs cannot be checked.
func TestNothingIsDecidedFromForgedEvents(t *testing.T) {
	t.Parallel()
	origin := newSite(t)
	origin.db.Close()
	const noMACs = `update events set mac = '' where workspace_id = $1 and seq <= 260`
	for name, c := range map[string]struct {
		sql    []string
		forged bool
	}{
		"genuine events":                        {[]string{ownerRow}, false},
		"events of a build without MACs":        {[]string{noMACs, ownerRow}, false},
		"append an event and its rows":          {[]string{forgedEvent, ownerRow, countsAsAppended}, true},
		"append an event, and no log has MACs":  {[]string{noMACs, forgedEvent, ownerRow, countsAsAppended}, true},
		"change an unsigned event and its rows": {[]string{unsignedEvent, ownerRow, countsAsChanged}, true},
		"change a signed event":                 {[]string{signedEvent}, true},
		"change a signed event without MAC":     {[]string{noMACs, signedEvent}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, logs := origin.clone(t), &logCapture{}
			for _, sql := range c.sql {
				done, err := s.db.Exec(t.Context(), sql, s.id)
				require.NoError(t, err)
				require.NotZero(t, done.RowsAffected(), sql)
			}
			_, err := s.handler(t, logs).RenameWorkspace(t.Context(), commands.RenameWorkspace{
				Meta: commands.Meta{Workspace: s.id, Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: s.eve, Name: "eve@x"}}},
				Name: new("Eve's"),
			})
			if !c.forged {
				require.Equal(t, fault.Denied, fault.As(err).Kind, "she is no Owner: %v", err)
				require.Zero(t, logs.count("level=ERROR"))
				return
			}
			require.ErrorIs(t, err, fault.ErrUnavailable)
			require.NotZero(t, logs.count("event was not appended by this service"))
		})
	}
}
