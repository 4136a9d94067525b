package main

import (
	"context"
	"io"

	"svc/config"
)

// An invocation has the inputs of a command.
type invocation struct {
	options
	url       config.Secret // complete URL of the database
	vaultKeys []config.Secret
	out       io.Writer // receives the report
}

// A command is one of the commands of svc-db.
type command struct {
	run   func(context.Context, invocation) error
	views bool // accepts names of views as arguments
}

var subcommands = map[string]command{
	"migrate": {run: migrate},
	"info":    {run: info},
	"rebuild": {run: rebuildViews, views: true},
	"views":   {run: views},
	"parked":  {run: parked},
	"retry":   {run: retry, views: true},
	"skip":    {run: skip, views: true},
	"verify":  {run: verify},

	"replace-key": {run: replaceKey},
}
