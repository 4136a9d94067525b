package config

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// An Addr is where a server listens: host:port, :port for every interface, or fd://n for a
// listening socket that the parent process passes as file n. systemd and svc pass files
// from 3 on.
type Addr string

// UnmarshalText checks that text has a port between 0 and 65535, or a file number above the
// standard ones.
func (a *Addr) UnmarshalText(text []byte) error {
	addr := Addr(text)
	if n, handed := addr.FD(); handed && n > 2 {
		*a = addr
		return nil
	}
	_, port, err := net.SplitHostPort(string(addr))
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return want("an address such as :4000 or 127.0.0.1:4000")
	}
	*a = addr
	return nil
}

// FD returns the file number of an inherited socket. handed is false if a is no such
// address.
func (a Addr) FD() (n uintptr, handed bool) {
	text, handed := strings.CutPrefix(string(a), "fd://")
	if !handed {
		return 0, false
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return uintptr(number), err == nil
}

// CIDRs is a list of networks. A single address is a network of one.
type CIDRs []netip.Prefix

// Contains reports whether one of the networks contains addr, which may be an IPv4-mapped
// IPv6 address or have a zone.
func (c CIDRs) Contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(c, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// String joins the networks by commas.
func (c CIDRs) String() string {
	texts := make([]string, len(c))
	for i, p := range c {
		texts[i] = p.String()
	}
	return strings.Join(texts, ",")
}

// UnmarshalText parses networks and addresses separated by commas. The network of all addresses is
// refused: where it is trusted, every caller may claim to be another one.
func (c *CIDRs) UnmarshalText(text []byte) error {
	var list CIDRs
	for part := range strings.SplitSeq(string(text), ",") {
		p, err := prefix(strings.TrimSpace(part))
		if err != nil || p.Bits() == 0 {
			return want("networks such as 10.0.0.0/8,192.0.2.7 separated by commas, and none of all addresses")
		}
		list = append(list, p)
	}
	*c = list
	return nil
}

func prefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if mapped := 128 - 32; p.Addr().Is4In6() && p.Bits() >= mapped {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
		}
		return p.Masked(), err
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return a.Unmap().WithZone("").Prefix(a.Unmap().BitLen())
}
