package vault

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const lastingMAC = "f5e3152831126d61b7636f06eeaa7b2a381f43706607700dfe4327826c8a72dfa32199a6191e5da4"

func TestMACIsOfItsPlaceTextAndKey(t *testing.T) {
	ring, text := ringOf(t, newer, older), []byte(`{"a":1}`)
	mac, err := ring.MAC("snapshots/1", text)
	require.NoError(t, err)
	require.NoError(t, ring.CheckMAC("snapshots/1", text, mac))
	for name, err := range map[string]error{
		"another text":      ring.CheckMAC("snapshots/1", []byte(`{"a":2}`), mac),
		"another place":     ring.CheckMAC("snapshots/2", text, mac),
		"a border moved":    ring.CheckMAC("snapshots/1{", text[1:], mac),
		"no code":           ring.CheckMAC("snapshots/1", text, nil),
		"a code cut short":  ring.CheckMAC("snapshots/1", text, mac[:39]),
		"another ring's id": ring.CheckMAC("snapshots/1", text, slices.Concat(ringOf(t, older).keys[0].id[:], mac[8:])),
	} {
		require.ErrorIs(t, err, ErrTampered, name)
		requireHidden(t, err)
	}
	for i := range mac {
		altered := slices.Clone(mac)
		altered[i] ^= 1
		require.Error(t, ring.CheckMAC("snapshots/1", text, altered), i)
	}
}

// The first key writes, and any key of the ring checks.
func TestMACOutlivesARotation(t *testing.T) {
	mac, err := ringOf(t, older).MAC("p", []byte("text"))
	require.NoError(t, err)
	require.NoError(t, ringOf(t, newer, older).CheckMAC("p", []byte("text"), mac))
	err = ringOf(t, newer).CheckMAC("p", []byte("text"), mac)
	require.ErrorIs(t, err, ErrKeyChanged)
	requireHidden(t, err)
	again, err := ringOf(t, newer, older).MAC("p", []byte("text"))
	require.NoError(t, err)
	require.NoError(t, ringOf(t, newer).CheckMAC("p", []byte("text"), again))
	require.True(t, ringOf(t, newer, older).CurrentMAC(again))
	require.False(t, ringOf(t, newer, older).CurrentMAC(mac))
	require.False(t, ringOf(t, newer).CurrentMAC(nil))

	_, err = Ring{}.MAC("p", nil)
	require.Error(t, err, "no key")
	require.Error(t, Ring{}.CheckMAC("p", nil, mac))
}

// A short code is the beginning of the full one; no other length is accepted.
func TestShortMACIsHalfAsLong(t *testing.T) {
	ring, text := ringOf(t, older), []byte("text")
	short, err := ring.ShortMAC("p", text)
	require.NoError(t, err)
	require.Equal(t, lastingMAC[:48], hex.EncodeToString(short))
	require.NoError(t, ring.CheckMAC("p", text, short))
	for i := range short {
		altered := slices.Clone(short)
		altered[i] ^= 1
		require.Error(t, ring.CheckMAC("p", text, altered), i)
		require.ErrorIs(t, ring.CheckMAC("p", text, short[:i]), ErrTampered)
	}
	_, err = Ring{}.ShortMAC("p", text)
	require.Error(t, err, "no key")
}

// Databases hold such codes. This one was computed by another implementation: HKDF-SHA256
// of the key with the info "svc vault: mac", then HMAC-SHA256.
func TestMACNeverChanges(t *testing.T) {
	mac, err := ringOf(t, older).MAC("p", []byte("text"))
	require.NoError(t, err)
	require.Equal(t, lastingMAC, hex.EncodeToString(mac))
}
