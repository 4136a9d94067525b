package codehost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"svc/engine/client"
)

// A Network is how code hosts are reached.
type Network struct {
	AllowLocal bool // also http, and addresses of this machine: for development
	transport  *http.Transport
}

const (
	requestLimit = 20 * time.Second
	dialLimit    = 10 * time.Second
	maxBody      = 8 << 20
)

// errAddress refuses addresses at which there is no code host, but perhaps something that trusts whoever
// can reach it: this machine, its link, and what clouds tell their machines.
var errAddress = errors.New("the address is not that of a code host")

// NewNetwork returns a network. Close ends its idle connections.
func NewNetwork(allowLocal bool) Network {
	dialer := &net.Dialer{Timeout: dialLimit, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !public(at.Addr()) && !(allowLocal && at.Addr().Unmap().IsLoopback()) {
			return errAddress
		}
		return nil
	}}
	return Network{AllowLocal: allowLocal, transport: &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 32, MaxIdleConnsPerHost: 8,
		IdleConnTimeout: time.Minute, TLSHandshakeTimeout: dialLimit, ResponseHeaderTimeout: requestLimit, MaxResponseHeaderBytes: 256 << 10,
	}}
}

// Close ends idle connections.
func (n Network) Close() { n.transport.CloseIdleConnections() }

// metadata are addresses of clouds' metadata that are not link-local.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}

// public reports whether a code host can be at an address. Private networks have code hosts.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return !slices.Contains(metadata, a) && a.IsValid() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() &&
		!a.IsUnspecified() && !netip.MustParsePrefix("0.0.0.0/8").Contains(a)
}

// Resolve returns the addresses of a host that may be connected to.
func (n Network) Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, &client.Failure{Class: client.Transient, Code: client.CodeHostAway, Message: "The code host's name cannot be resolved."}
	}
	var list []netip.Addr
	for _, a := range all {
		if a = a.Unmap(); public(a) {
			list = append(list, a)
		}
	}
	if list == nil {
		return nil, &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The code host's name leads to an address that may not be used."}
	}
	return list, nil
}

// client returns a client of one repository's host. It follows one redirect of a read, and only on the same
// host: that is how hosts answer to the former name of a repository.
func (n Network) client(authorize func(*http.Request)) *http.Client {
	return &http.Client{
		Transport: limited{n.transport, authorize},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			first := via[0]
			if len(via) > 1 || first.Method != http.MethodGet || r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme {
				return &refusal{status: r.Response.StatusCode, header: r.Response.Header}
			}
			return nil
		},
	}
}

// limited authorizes requests, and bounds bodies and the time to the end of an answer. An answer that is neither success
// nor redirection is an error: a [*refusal].
type limited struct {
	next      http.RoundTripper
	authorize func(*http.Request)
}

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestLimit)
	r = r.Clone(ctx)
	l.authorize(r)
	res, err := l.next.RoundTrip(r)
	if err != nil {
		cancel()
		return nil, err
	}
	res.Body = &limitedBody{res.Body, maxBody, cancel}
	if res.StatusCode >= 400 || res.StatusCode >= 300 && res.Header.Get("Location") == "" {
		return nil, newRefusal(res)
	}
	return res, nil
}

type limitedBody struct {
	io.ReadCloser
	left   int64
	cancel func()
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the code host's answer is larger than %d MiB", maxBody>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil {
		b.cancel()
	}
	return n, err
}

func (b *limitedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
