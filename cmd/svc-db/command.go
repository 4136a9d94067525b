package main

import (
	"context"
	"io"

	"svc/config"
)

// A job has the inputs of a command.
type job struct {
	options
	url       config.Secret // complete URL of the database
	vaultKeys []config.Secret
	out       io.Writer // receives the report
}

// A command is one of the commands of svc-db.
type command struct {
	run   func(context.Context, job) error
	views bool // accepts names of views as arguments
}

var commands = map[string]command{
	"migrate": {run: migrate},
	"info":    {run: info},
	"rebuild": {run: rebuild, views: true},
	"views":   {run: views},
	"parked":  {run: parked},
	"retry":   {run: retry, views: true},
	"skip":    {run: skip, views: true},
	"verify":  {run: verify},

	"replace-key": {run: replaceKey},
}
