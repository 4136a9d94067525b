package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"svc/config"
)

// URL returns the URL at which a server that listens on addr is reached from its own machine, such
// as http://127.0.0.1:4001 for :4001.
func URL(addr config.Addr) string {
	host, port, err := net.SplitHostPort(string(addr))
	if err != nil {
		return "http://" + string(addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Healthcheck checks path at a server on this machine that listens on addr, the value of the
// environment variable. It implements the services' -healthcheck flag.
func Healthcheck(ctx context.Context, variable string, addr config.Addr, path string) error {
	if _, handed := addr.FD(); handed {
		return fmt.Errorf("%s: nobody can ask at a socket that was handed down; set the address that it has", variable)
	}
	return Check(ctx, URL(addr)+path)
}

// Check requests url and returns an error unless the answer is 200 within 5 s.
func Check(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 500)) // it often says what is wrong
		return fmt.Errorf("get %s: %s: %s", url, res.Status, bytes.TrimSpace(body))
	}
	return nil
}
