package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"svc/config"
)

// Config is the environment of svc-codehost.
type Config struct {
	// Whoever reaches it can sign in as anybody: other addresses are refused.
	Addr config.Addr `env:"SVC_CODEHOST_ADDR" envDefault:"127.0.0.1:4010" doc:"Address to listen on. Loopback only."`

	ClientID     string        `env:"SVC_CODEHOST_CLIENT_ID,required,notEmpty" doc:"The application that people sign in to, as it names itself."`
	ClientSecret config.Secret `env:"SVC_CODEHOST_CLIENT_SECRET,required,notEmpty" min:"16" doc:"What the application proves itself with."`
	Callback     config.URL    `env:"SVC_CODEHOST_CALLBACK,required,notEmpty" doc:"Where people go back to, such as http://127.0.0.1:4000/api/auth/callback/github."`

	People string `env:"SVC_CODEHOST_PEOPLE" doc:"JSON file with a list of people, each {id, login, name, emails[{email, primary, verified, public}]}. Not set: the demonstration people."`

	LogLevel slog.Level `env:"SVC_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged: debug, info, warn or error."`
}

// loopback resolves addr, and refuses what others could reach.
func loopback(ctx context.Context, addr config.Addr) (string, error) {
	host, port, err := net.SplitHostPort(string(addr))
	if err != nil {
		return "", fmt.Errorf("SVC_CODEHOST_ADDR: %w", err)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return "", fmt.Errorf("SVC_CODEHOST_ADDR: %w", err)
	}
	for _, ip := range ips {
		if !ip.IP.IsLoopback() {
			return "", fmt.Errorf("SVC_CODEHOST_ADDR: %s is not a loopback address; anybody could sign in as anybody", ip.IP)
		}
	}
	return net.JoinHostPort(ips[0].String(), port), nil
}
