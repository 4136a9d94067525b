package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"svc/config"
	"svc/http/serve"
)

// Config is the environment of svc-codehost.
type Config struct {
	// Whoever reaches the code host can sign in as anybody, so it only listens on loopback.
	Addr config.Addr `env:"SVC_CODEHOST_ADDR" envDefault:"127.0.0.1:4010" doc:"Address to listen on. Loopback only."`

	ClientID     string        `env:"SVC_CODEHOST_CLIENT_ID,required,notEmpty" doc:"The application that people sign in to, as it names itself."`
	ClientSecret config.Secret `env:"SVC_CODEHOST_CLIENT_SECRET,required,notEmpty" min:"16" doc:"What the application proves itself with."`
	Callback     config.URL    `env:"SVC_CODEHOST_CALLBACK,required,notEmpty" schemes:"http,https" doc:"Where people go back to, such as http://127.0.0.1:4000/api/auth/callback/github."`

	People string `env:"SVC_CODEHOST_PEOPLE" doc:"JSON file with a list of people, each {id, login, name, role, emails[{email, primary, verified, public}]}. Not set: the demonstration people."`

	Dir       string        `env:"SVC_CODEHOST_DIR" doc:"Folder for repositories, issues and pull requests. Not set: a temporary one, which is removed at the end."`
	Token     config.Secret `env:"SVC_CODEHOST_TOKEN" min:"16" doc:"Token that may push and merge, of the account svc-bot."`
	ReadToken config.Secret `env:"SVC_CODEHOST_READ_TOKEN" min:"16" doc:"Token that may only read, of the account svc-reader."`
	Workflows bool          `env:"SVC_CODEHOST_WORKFLOWS" envDefault:"true" doc:"Whether the token may push changes of .github/workflows."`
	Faults    bool          `env:"SVC_CODEHOST_FAULTS" doc:"Whether tests may inject faults, at /_test/faults."`

	LogLevel slog.Level `env:"SVC_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged: debug, info, warn or error."`
}

// listen listens at addr, which must be a loopback address.
func listen(ctx context.Context, addr config.Addr) (net.Listener, error) {
	ln, err := serve.Listen(ctx, "SVC_CODEHOST_ADDR", addr)
	if err != nil {
		return nil, err
	}
	if at, ok := ln.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		_ = ln.Close()
		return nil, fmt.Errorf("SVC_CODEHOST_ADDR: %s is not a loopback address; anybody could sign in as anybody", ln.Addr())
	}
	return ln, nil
}
