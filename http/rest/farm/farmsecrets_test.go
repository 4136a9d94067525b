package farm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/config"
	"svc/events"
	"svc/farm/secrets"
	"svc/http/rest/door"
	"svc/test/world"
	"svc/vault"
)

// A failingLog appends nothing.
type failingLog struct {
	commands.Log
	err error
}

func (l *failingLog) Append(context.Context, *events.Commit) (events.Committed, error) {
	return events.Committed{}, l.err
}

// A lateVault calls during before it stores a value, and returns err after it has.
type lateVault struct {
	SecretVault
	during func()
	err    error
}

func (v *lateVault) Put(ctx context.Context, workspace, value events.ID, text string) error {
	v.during()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the value may be stored later: %w", err)
	}
	return errors.Join(v.SecretVault.Put(ctx, workspace, value, text), v.err)
}

// Of a request that fails, or whose caller goes away, no value stays in the vault, which would have no
// limit. A value stays if the log may name it.
func TestFailedRequestsLeaveNoSecretValue(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	ring, err := vault.NewRing([]config.Secret{"the-key-that-the-database-does-not-have"})
	require.NoError(t, err)
	kept := secrets.Secrets{Vault: vault.Secrets{DB: w.DB, Ring: ring}}
	in := &secretValue{SecretPath: SecretPath{Name: "NPM_TOKEN"}}
	in.Body.Value = "a value of a secret"
	failing := func(err error) *commands.Handler { return commands.New(&failingLog{w.Log, err}, w.Clock.Now) }
	for name, c := range map[string]struct {
		commands *commands.Handler
		leaves   bool // while the value is stored
		vault    error
		left     int
	}{
		"the caller goes away before the event is stored": {commands: failing(context.Canceled)},
		"the caller goes away while the value is stored":  {commands: w.Commands, leaves: true},
		"the vault fails after it stored the value":       {commands: w.Commands, vault: errors.New("the connection was lost")},
		"the command is refused":                          {commands: failing(farm.ErrFarmSecretMax)},
		"the log fails":                                   {commands: failing(errors.New("no such column"))},
		"the log may have it":                             {commands: failing(events.ErrOutcomeUnknown), left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			v := &lateVault{SecretVault: kept, during: func() {}, err: c.vault}
			if c.leaves {
				v.during = leave
			}
			s := &Server{Config: Config{Vault: v}, Door: door.New(door.Config{
				Commands: c.commands, Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler),
			})}
			_, err := s.setFarmSecret(ctx, in, commands.SetFarmSecret{Meta: world.Meta(p.Workspace, p.Owner), Name: in.Name})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "may be stored later")
			var left int
			require.NoError(t, w.DB.QueryRow(t.Context(), `
				with d as (delete from vault_secrets where name like 'farm_secret/%' returning 1) select count(*) from d`).Scan(&left))
			require.Equal(t, c.left, left)
		})
	}
}
