package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"

	"svc/config"
	"svc/http/serve"
)

// A listenAddr is an address to listen on and the variable that sets it.
type listenAddr struct {
	variable string
	addr     *config.Addr
}

// sockets are the listening sockets of the services, by variable. svc opens them first and passes
// them to the services, so that no other program takes a port in between, however long the start
// takes.
type sockets map[string]*os.File

// claim opens a socket at each address. If an address is in use, the error names it. Port 0 becomes
// a free port.
func claim(ctx context.Context, addrs ...listenAddr) (sockets, error) {
	s := sockets{}
	for _, p := range addrs {
		if err := s.open(ctx, p); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s sockets) open(ctx context.Context, p listenAddr) error {
	ln, err := serve.Listen(ctx, p.variable, *p.addr)
	if err != nil {
		return err
	}
	defer ln.Close() // File duplicates the descriptor
	if s[p.variable], err = ln.(*net.TCPListener).File(); err != nil {
		return fmt.Errorf("%s: %w", p.variable, err)
	}
	if _, handed := p.addr.FD(); handed || strings.HasSuffix(string(*p.addr), ":0") {
		*p.addr = config.Addr(ln.Addr().String())
	}
	return nil
}

// inherit makes cmd inherit the sockets of variables. The caller must close them once cmd has started
// or failed: a socket that only svc held would let callers wait for a service that is gone.
func (s sockets) inherit(cmd *exec.Cmd, variables ...string) {
	const standard = 3 // input, output, errors
	for _, variable := range variables {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=fd://%d", variable, standard+len(cmd.ExtraFiles)))
		cmd.ExtraFiles = append(cmd.ExtraFiles, s[variable])
	}
}

// close closes the sockets of variables, or all sockets.
func (s sockets) close(variables ...string) {
	for variable, f := range s {
		if len(variables) == 0 || slices.Contains(variables, variable) {
			_ = f.Close()
			delete(s, variable)
		}
	}
}
