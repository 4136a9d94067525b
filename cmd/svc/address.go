package main

import (
	"context"
	"net"
	"strings"

	"svc/config"
	"svc/http/serve"
)

// A place is an address and the variable that sets it.
type place struct {
	variable string
	addr     *config.Addr
}

// claim returns an error that names the first place in use. A port 0 becomes
// a port that is free. All are held until all are known, so that no two
// places share an address.
func claim(ctx context.Context, places ...place) error {
	for _, p := range places {
		ln, err := listen(ctx, p)
		if err != nil {
			return err
		}
		defer ln.Close()
	}
	return nil
}

func listen(ctx context.Context, p place) (net.Listener, error) {
	ln, err := serve.Listen(ctx, p.variable, string(*p.addr))
	if err == nil && strings.HasSuffix(string(*p.addr), ":0") {
		*p.addr = config.Addr(ln.Addr().String())
	}
	return ln, err
}
