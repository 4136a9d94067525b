package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"svc/atomicfile"
	"svc/filelock"
)

// newKey returns a new ECDSA key, which the TLS of any gateway supports.
func newKey() (crypto.Signer, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return k, nil
}

// newCertificateRequest returns a certificate request for key. The service uses only its public
// key.
func newCertificateRequest(key crypto.Signer, name string) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return "", fmt.Errorf("make certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func decodeKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("read key: it is not a key in PEM")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("read key: it is malformed")
	}
	signer, ok := k.(crypto.Signer)
	if !ok {
		return nil, errors.New("read key: it cannot sign")
	}
	return signer, nil
}

// pendingKey returns the key of an enrollment in progress, or a new one. A repeated request with the
// same token and key gets the same answer.
func (f Folder) pendingKey() (crypto.Signer, error) {
	if text, err := os.ReadFile(f.Path(PendingFile)); err == nil {
		if key, err := decodeKey(text); err == nil {
			return key, nil
		}
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	text, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, f.replaceFile(PendingFile, text)
}

// saveCredentials writes key and certificate into one file, so that they always match. The file is
// CredentialsFile, or RenewedFile for credentials that are not used yet.
func (f Folder) saveCredentials(name string, key crypto.Signer, certificate string) (*tls.Certificate, error) {
	text, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	text = append(text, certificate...)
	c, err := parseCredentials(text)
	if err != nil {
		return nil, err
	}
	return c, f.replaceFile(name, text)
}

// Credentials reads the key and the certificate that are in use.
func (f Folder) Credentials() (*tls.Certificate, error) { return f.ReadCredentials(CredentialsFile) }

// KeepCertificate keeps the certificate from being replaced until the lock is released. A process other
// than the supervisor holds it from before it reads the credentials until the end of its request.
func (f Folder) KeepCertificate() (*filelock.Lock, error) {
	lock, err := filelock.Share(string(f))
	if err != nil {
		return nil, fmt.Errorf("keep credentials: %w", err)
	}
	return lock, nil
}

// ReadCredentials reads credentials. Its error is [ErrNotEnrolled] if there is no such file.
func (f Folder) ReadCredentials(name string) (*tls.Certificate, error) {
	text, err := os.ReadFile(f.Path(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNotEnrolled
	}
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	return parseCredentials(text)
}

// adoptPause is the pause between two looks whether other processes use the certificate.
const adoptPause = 20 * time.Millisecond

// adoptRenewed makes renewed credentials those of the runner, once no other process makes a request with
// the old ones, for which it waits as long as one may take. From then on only the new ones may be used.
func (f Folder) adoptRenewed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lock, err := filelock.TryExclusive(string(f))
	for ; err != nil; lock, err = filelock.TryExclusive(string(f)) {
		if _, held := errors.AsType[*filelock.HeldError](err); !held {
			return fmt.Errorf("replace credentials: %w", err)
		}
		select {
		case <-time.After(adoptPause):
		case <-ctx.Done():
			return fmt.Errorf("replace credentials, which another process uses: %w", ctx.Err())
		}
	}
	defer lock.Unlock()
	if err := os.Rename(f.Path(RenewedFile), f.Path(CredentialsFile)); err != nil {
		return fmt.Errorf("replace credentials: %w", err)
	}
	return atomicfile.SyncDir(string(f))
}

func parseCredentials(text []byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	if c.Leaf == nil {
		return nil, errors.New("read credentials: no certificate")
	}
	return &c, nil
}

// readAuthority reads PEM certificates of authorities. An empty path returns nil, which stands for
// the machine's authorities.
func readAuthority(path string) (*x509.CertPool, []byte, error) {
	if path == "" {
		return nil, nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the server's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, nil, fmt.Errorf("read the server's authority: %s has no certificate in PEM", path)
	}
	return pool, text, nil
}

// authority returns the authorities that may issue the farm's server certificate, nil for the
// machine's.
func (f Folder) authority() (*x509.CertPool, error) {
	if _, err := os.Stat(f.Path(AuthorityFile)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	pool, _, err := readAuthority(f.Path(AuthorityFile))
	return pool, err
}
