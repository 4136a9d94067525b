package pgserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func (s *Server) addrFile() string { return filepath.Join(s.config.Dir, "address") }

// chooseAddr sets the server's address: the configured one, which must be free, otherwise that of
// the last start, otherwise any free port. avoid is an address that has just turned out to be
// taken.
func (s *Server) chooseAddr(avoid string) error {
	if s.config.Addr != "" {
		return s.takeAddr(s.config.Addr)
	}
	if text, err := os.ReadFile(s.addrFile()); err == nil {
		last := strings.TrimSpace(string(text))
		if last != avoid && s.takeAddr(last) == nil {
			return nil
		}
	}
	return s.takeAddr("127.0.0.1:0")
}

// takeAddr checks that an address is free by listening on it briefly. Another process may still
// take it; launch then retries.
func (s *Server) takeAddr(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	if host != "127.0.0.1" {
		return fmt.Errorf("address %q: a private server listens on 127.0.0.1 only", addr)
	}
	listener, err := net.Listen("tcp4", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("address %s is in use by another program", addr)
	}
	if err != nil {
		return fmt.Errorf("address %s: %w", addr, err)
	}
	s.addr = listener.Addr().String()
	return listener.Close()
}
