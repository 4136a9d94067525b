package release

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"svc/atomicfile"
)

const keyPrefix = "ed25519:"

// FormatKey returns a public key as release.pub and SVC_FARM_RELEASE_KEYS have it.
func FormatKey(key ed25519.PublicKey) string {
	return keyPrefix + base64.StdEncoding.EncodeToString(key)
}

// ParseKey parses what [FormatKey] returns.
func ParseKey(text string) (ed25519.PublicKey, error) {
	encoded, named := strings.CutPrefix(text, keyPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !named || err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("a public key has the form ed25519: and 32 bytes in base64")
	}
	return key, nil
}

// ParseKeys parses a list of public keys.
func ParseKeys(texts []string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for i, text := range texts {
		key, err := ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// OpenKey reads a private key, in PKCS #8 and PEM as OpenSSL writes it. If the file does not exist
// it is created with a new key.
func OpenKey(path string) (ed25519.PrivateKey, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	_, key, err = ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	// It never replaces a key, since an old one cannot be recovered.
	return key, atomicfile.Create(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s: no private key in PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: the key is not an Ed25519 one", path)
	}
	return key, nil
}
