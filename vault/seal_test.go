package vault

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const place = "provider_tokens/u/github"

func TestSealRoundTrip(t *testing.T) {
	ring := ringOf(t, newer)
	for name, plain := range map[string][]byte{
		"nothing": nil, "a token": []byte("a token"), "every byte": everyByte(), "long": bytes.Repeat([]byte{7}, 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			sealed, err := ring.Seal(place, plain)
			require.NoError(t, err)
			require.Len(t, sealed, 53+len(plain))
			opened, err := ring.Open(place, sealed)
			require.NoError(t, err)
			require.Equal(t, string(plain), string(opened))
		})
	}
}

func TestSealedTwiceGivesTwoValues(t *testing.T) {
	ring := ringOf(t, newer)
	seen := map[string]bool{}
	for range 100 {
		sealed, err := ring.Seal(place, []byte("a token"))
		require.NoError(t, err)
		salt, nonce := string(sealed[9:25]), string(sealed[25:37])
		require.False(t, seen[salt] || seen[nonce], "salt and nonce are new each time")
		seen[salt], seen[nonce] = true, true
	}
}

// lasting is "a token" under the older key, sealed by another implementation written from
// the package's description. Databases hold such values.
func lasting(t testing.TB) []byte {
	t.Helper()
	sealed, err := hex.DecodeString(strings.Join([]string{
		"01", "f5e3152831126d61", // format, key id
		"000102030405060708090a0b0c0d0e0f", // salt
		"101112131415161718191a1b",         // nonce
		"fd3a7ee4a7ea10", "4ea0b33074775d79de32ca1e7cba9752",
	}, ""))
	require.NoError(t, err)
	return sealed
}

func TestFormatOpensForEver(t *testing.T) {
	opened, err := ringOf(t, newer, older).Open(place, lasting(t))
	require.NoError(t, err)
	require.Equal(t, "a token", string(opened))
}

func TestEveryAlteredByteIsNoticed(t *testing.T) {
	ring := ringOf(t, newer, older)
	sealed, err := ring.Seal(place, []byte("a token"))
	require.NoError(t, err)
	for i := range sealed {
		for bit := range 8 {
			altered := slices.Clone(sealed)
			altered[i] ^= 1 << bit
			want := ErrTampered
			if 1 <= i && i < 9 {
				want = ErrKeyChanged // the altered id names another key
			}
			requireRefused(t, ring, place, altered, want)
		}
	}
	// The id of the ring's other key, in place of the value's own.
	altered := slices.Concat(sealed[:1], ring.keys[1].id[:], sealed[9:])
	requireRefused(t, ring, place, altered, ErrTampered)
}

func TestEveryOtherLengthIsNoticed(t *testing.T) {
	ring := ringOf(t, newer)
	sealed, err := ring.Seal(place, []byte("a token"))
	require.NoError(t, err)
	for n := range sealed {
		requireRefused(t, ring, place, sealed[:n], ErrTampered)
	}
	requireRefused(t, ring, place, append(sealed, 0), ErrTampered)
}

func TestValueOpensOnlyInItsPlace(t *testing.T) {
	ring := ringOf(t, newer)
	sealed, err := ring.Seal(place, []byte("a token"))
	require.NoError(t, err)
	for _, elsewhere := range []string{"", "provider_tokens/v/github", place + "/", place[1:], "vault_checks/master_key"} {
		requireRefused(t, ring, elsewhere, sealed, ErrTampered)
	}
}

func TestFirstKeySealsAndAllOpen(t *testing.T) {
	sealed := map[string][]byte{}
	for name, ring := range map[string]Ring{"older": ringOf(t, older, newer), "newer": ringOf(t, newer, older)} {
		var err error
		sealed[name], err = ring.Seal(place, []byte("a token"))
		require.NoError(t, err)
	}
	for name, test := range map[string]struct {
		ring         Ring
		older, newer error
	}{
		"new and old": {ringOf(t, newer, older), nil, nil},
		"old and new": {ringOf(t, older, newer), nil, nil},
		"old only":    {ringOf(t, older), nil, ErrKeyChanged},
		"new only":    {ringOf(t, newer), ErrKeyChanged, nil},
		"neither":     {ringOf(t, other), ErrKeyChanged, ErrKeyChanged},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.ring.Open(place, sealed["older"])
			require.ErrorIs(t, err, test.older)
			_, err = test.ring.Open(place, sealed["newer"])
			require.ErrorIs(t, err, test.newer)
		})
	}
}

func requireRefused(t *testing.T, ring Ring, place string, sealed []byte, want error) {
	t.Helper()
	opened, err := ring.Open(place, sealed)
	require.ErrorIs(t, err, want)
	require.Nil(t, opened)
	require.ErrorContains(t, err, "open "+place+": ")
	requireHidden(t, err)
}

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// FuzzOpen checks that only sealed values open, and that nothing makes Open panic. The
// seeds are the same in each of the fuzzer's processes.
func FuzzOpen(f *testing.F) {
	ring := ringOf(f, newer, older)
	sealed := lasting(f)
	f.Add(place, sealed)
	f.Add("elsewhere", sealed)
	f.Add(place, sealed[:40])
	f.Add("", []byte{})
	f.Add(place, append(slices.Concat([]byte{1}, ring.keys[0].id[:]), sealed[9:]...))
	f.Fuzz(func(t *testing.T, at string, value []byte) {
		opened, err := ring.Open(at, value)
		if at == place && bytes.Equal(value, sealed) {
			require.NoError(t, err)
			require.Equal(t, "a token", string(opened))
			return
		}
		require.Error(t, err)
		require.Nil(t, opened)
	})
}

func BenchmarkSeal(b *testing.B) {
	ring := ringOf(b, newer, older)
	plain := bytes.Repeat([]byte("t"), 40)
	for b.Loop() {
		_, err := ring.Seal(place, plain)
		require.NoError(b, err)
	}
}

func BenchmarkOpen(b *testing.B) {
	ring := ringOf(b, newer, older)
	sealed, err := ring.Seal(place, bytes.Repeat([]byte("t"), 40))
	require.NoError(b, err)
	for b.Loop() {
		_, err := ring.Open(place, sealed)
		require.NoError(b, err)
	}
}
