package events_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestFingerprintForm(t *testing.T) {
	f := events.Fingerprint(sha256.Sum256([]byte("abc")))
	requireForm(t, `"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"`, f)

	var upper events.Fingerprint
	require.NoError(t, upper.UnmarshalText([]byte("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD")))
	require.Equal(t, f, upper)
}

func TestFingerprintRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":          "",
		"too few digits":   strings.Repeat("a", 63),
		"too many digits":  strings.Repeat("a", 66),
		"other letters":    strings.Repeat("g", 64),
		"something around": "0x" + strings.Repeat("a", 62),
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, new(events.Fingerprint).UnmarshalText([]byte(text)))
		})
	}
}

func TestFingerprintInADatabase(t *testing.T) {
	f := events.Fingerprint(sha256.Sum256([]byte("abc")))
	kept, err := f.BytesValue()
	require.NoError(t, err)
	require.Equal(t, f[:], kept)

	var back events.Fingerprint
	require.NoError(t, back.ScanBytes(kept))
	require.Equal(t, f, back)
	require.EqualError(t, back.ScanBytes(kept[1:]), "fingerprint of 31 bytes")
	require.EqualError(t, back.ScanBytes(nil), "fingerprint of 0 bytes")
}
