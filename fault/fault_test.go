package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/fault"
)

type stated string

func (s stated) Error() string    { return "sql" }
func (s stated) SQLState() string { return string(s) }

func TestIsUnavailable(t *testing.T) {
	for name, err := range map[string]error{
		"busy":                 fault.ErrBusy,
		"no connection":        &net.OpError{Op: "dial", Err: errors.New("refused")},
		"broken off":           io.ErrUnexpectedEOF,
		"too late":             context.DeadlineExceeded,
		"starting up":          stated("57P03"),
		"a wrong password":     stated("28P01"),
		"no such database":     stated("3D000"),
		"too many":             stated("53300"),
		"a lock that is held":  errors.Join(context.DeadlineExceeded, stated("55P03")),
		"a statement too long": errors.Join(context.DeadlineExceeded, stated("57014")),
		"a deadlock":           stated("40P01"),
	} {
		require.True(t, fault.IsUnavailable(fmt.Errorf("look it up: %w", err)), name)
	}
	for name, err := range map[string]error{
		"any":                errors.New("any"),
		"a refusal":          fault.ErrTenantNotFound,
		"a wrong statement":  stated("42601"),
		"a row that is held": stated("23505"),
	} {
		require.False(t, fault.IsUnavailable(err), name)
	}
}

func TestEveryKindHasAStatus(t *testing.T) {
	for kind, status := range map[fault.Kind]int{
		fault.Internal:         500,
		fault.Malformed:        400,
		fault.Unauthenticated:  401,
		fault.Denied:           403,
		fault.NotFound:         404,
		fault.Gone:             410,
		fault.MethodNotAllowed: 405,
		fault.Conflict:         409,
		fault.Precondition:     412,
		fault.TooLarge:         413,
		fault.UnsupportedMedia: 415,
		fault.OutOfRange:       416,
		fault.Invalid:          422,
		fault.RateLimited:      429,
		fault.Busy:             503,
		fault.Unavailable:      503,
	} {
		require.Equal(t, status, kind.Status(), "kind %d", kind)
	}
	last := fault.Unavailable
	for kind := fault.Internal; kind <= last; kind++ {
		require.NotEmpty(t, http.StatusText(kind.Status()), "kind %d", kind)
	}
	require.Zero(t, (last + 1).Status(), "a kind was added: this test has to know it")
}

// Errors at level ERROR alert operators. Losing a race is no error, and a mistake of the
// caller is not logged at all.
func TestOnlyOutagesAndBugsAreLoggedAsErrors(t *testing.T) {
	for kind := fault.Internal; kind.Status() != 0; kind++ {
		want := slog.LevelDebug
		switch kind {
		case fault.Internal, fault.Unavailable:
			want = slog.LevelError
		case fault.Busy:
			want = slog.LevelInfo
		}
		require.Equal(t, want, kind.Level(), "kind %d", kind)
	}
}

func TestFaultsAreEqualByCode(t *testing.T) {
	taken := fault.New(fault.Conflict, "taken", "It is taken.")
	require.ErrorIs(t, taken.With("name", "ci-bot"), taken)
	require.ErrorIs(t, fmt.Errorf("create ci-bot: %w", taken), taken)
	require.ErrorIs(t, fault.New(fault.NotFound, "taken", "Other words."), taken)
	require.NotErrorIs(t, fault.New(fault.Conflict, "gone", "It is taken."), taken)
	require.NotErrorIs(t, errors.New("taken"), taken)
	require.NotErrorIs(t, taken, errors.New("taken"))
}

func TestWithLeavesTheOriginalAsItWas(t *testing.T) {
	plain := fault.New(fault.Invalid, "wrong", "Something is wrong.")
	one := plain.With("name", []string{"is too long"})
	two := one.With("scopes", []string{"is missing"})
	again := one.With("name", []string{"is too short"})

	require.Equal(t, map[string]any{}, plain.Details)
	require.Equal(t, map[string]any{"name": []string{"is too long"}}, one.Details)
	require.Equal(t, map[string]any{"name": []string{"is too long"}, "scopes": []string{"is missing"}}, two.Details)
	require.Equal(t, map[string]any{"name": []string{"is too short"}}, again.Details)
}

func TestDetailsAreAnObject(t *testing.T) {
	text, err := json.Marshal(fault.New(fault.Denied, "denied", "You may not.").Details)
	require.NoError(t, err)
	require.JSONEq(t, `{}`, string(text))
}

func TestAsFindsTheFaultInAChain(t *testing.T) {
	gone := fault.New(fault.NotFound, "gone", "It is gone.")
	require.Same(t, gone, fault.As(fmt.Errorf("show: %w", fmt.Errorf("find: %w", gone))))
	require.Same(t, gone, fault.As(errors.Join(errors.New("first"), gone)))
	require.Nil(t, fault.As(errors.New("gone")))
	require.Nil(t, fault.As(nil))
}

func TestField(t *testing.T) {
	f := fault.Field("limit", "must be %d or less", 100)
	require.Equal(t, fault.Invalid, f.Kind)
	require.Equal(t, "validation_failed", f.Code)
	require.Equal(t, "The request is not valid. See `details` for each field.", f.Message)
	require.Equal(t, map[string]any{"limit": []string{"must be 100 or less"}}, f.Details)
	require.Empty(t, fault.ErrValidation.Details)
}

func TestErrorNamesCodeAndMessage(t *testing.T) {
	require.EqualError(t, fault.New(fault.Conflict, "taken", "%s is taken.", "ci-bot"), "taken: ci-bot is taken.")
}

func TestFaultsOfEveryRoute(t *testing.T) {
	for _, c := range []struct {
		fault  *fault.Fault
		status int
		code   string
	}{
		{fault.ErrInternal, 500, "internal_error"},
		{fault.ErrValidation, 422, "validation_failed"},
		{fault.ErrUnauthenticated, 401, "unauthenticated"},
		{fault.ErrTenantNotFound, 404, "tenant_not_found"},
		{fault.ErrBusy, 503, "busy"},
	} {
		require.Equal(t, c.status, c.fault.Kind.Status(), c.code)
		require.Equal(t, c.code, c.fault.Code)
	}
}

func TestWrapNamesOperationAndOperand(t *testing.T) {
	require.NoError(t, fault.Wrap(nil, "load %s", "team/red"))
	err := fault.Wrap(fault.ErrUnavailable, "load %s", "team/red")
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorContains(t, err, "load team/red: ")
}
