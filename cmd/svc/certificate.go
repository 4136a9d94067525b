package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// Files of the gateway, below the data folder.
const (
	authorityFile       = "gateway/ca.pem"
	authorityKey        = "gateway/ca.key"
	gatewayFile         = "gateway/gateway.pem"
	gatewayKey          = "gateway/gateway.key"
	authorityYears      = 10
	certificateValidity = 365 * 24 * time.Hour
	// renewBefore is the remaining validity below which a certificate is renewed at the start,
	// because svc may run for long.
	renewBefore = 60 * 24 * time.Hour
)

// gatewayCertificate ensures that there are a private authority and a certificate from it for the
// gateway at host. It keeps both while they are valid long enough. The authority's key stays in the
// data folder, like everything else that svc trusts.
func (f *folder) gatewayCertificate(host string, now time.Time) error {
	if err := os.MkdirAll(f.file("gateway"), 0o700); err != nil {
		return err
	}
	until := now.Add(renewBefore)
	ca, err := tls.LoadX509KeyPair(f.file(authorityFile), f.file(authorityKey))
	if err != nil || ca.Leaf.NotAfter.Before(until.Add(certificateValidity)) {
		template := &x509.Certificate{
			Subject:   pkix.Name{CommonName: "Development authority of svc"},
			NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(authorityYears, 0, 0),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		}
		if ca, err = f.certify(authorityFile, authorityKey, template, nil); err != nil {
			return err
		}
	}
	if isValid(f.file(gatewayFile), f.file(gatewayKey), ca.Leaf, host, until) {
		return nil
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Development gateway of svc"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateValidity),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else {
		template.DNSNames = append(template.DNSNames, host)
	}
	_, err = f.certify(gatewayFile, gatewayKey, template, &ca)
	return err
}

// isValid reports whether a certificate matches its key, the authority and host, and is valid at a
// time.
func isValid(file, key string, ca *x509.Certificate, host string, until time.Time) bool {
	pair, err := tls.LoadX509KeyPair(file, key)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: until})
	return err == nil
}

// certify creates a key and its certificate, signed by an authority or by itself. If an interrupted
// start leaves two files that do not match, the next start creates new ones.
func (f *folder) certify(file, keyFile string, template *x509.Certificate, by *tls.Certificate) (pair tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return pair, err
	}
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair, fmt.Errorf("make %s: %w", f.file(file), err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair, fmt.Errorf("make %s: %w", f.file(keyFile), err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	if err := errors.Join(f.replace(keyFile, private), f.replace(file, certificate)); err != nil {
		return pair, err
	}
	return tls.X509KeyPair(certificate, private)
}
