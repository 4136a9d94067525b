package bearer_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands/bearer"
	"svc/events"
	"svc/input"
)

func TestEnrollmentTokenForm(t *testing.T) {
	t.Parallel()
	token := bearer.NewEnrollmentToken()
	s := token.Reveal()
	require.Regexp(t, `^tok_enr_[0-9A-Za-z]{38}$`, s)
	require.True(t, input.HasToken(s), "no text with it is kept")
	parsed, ok := bearer.ParseEnrollmentToken(s)
	require.True(t, ok)
	require.Equal(t, token, parsed)
	require.Equal(t, s[len(s)-4:], token.Tail())
	require.Equal(t, events.Fingerprint(sha256.Sum256([]byte(s))), token.Fingerprint())
	for _, other := range []string{"", s[:len(s)-1], s + "0", strings.ToUpper(s), bearer.NewServiceToken().Reveal(),
		"tok_enr_" + s[9:] + "0"} {
		_, ok := bearer.ParseEnrollmentToken(other)
		require.False(t, ok, other)
	}
	_, ok = bearer.ParseServiceToken(s)
	require.False(t, ok, "it is no service token")
}

func TestEnrollmentTokenIsNotPrinted(t *testing.T) {
	t.Parallel()
	token := bearer.NewEnrollmentToken()
	text, err := json.Marshal(map[string]any{"token": token})
	require.NoError(t, err)
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("made", "token", token)
	for _, printed := range []string{fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s %q %x", token, token, token, token, token, token),
		string(text), logged.String()} {
		require.NotContains(t, printed, token.Reveal())
		require.NotContains(t, printed, fmt.Sprintf("%x", token.Reveal()))
	}
}
