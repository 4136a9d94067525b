package main

import (
	"context"
	"io"

	"svc/config"
)

// A job is what a command has to go by.
type job struct {
	options
	url       config.Secret // of the database, complete
	vaultKeys []config.Secret
	out       io.Writer // takes the report
}

// A command is what svc-db can be asked to do.
type command struct {
	run   func(context.Context, job) error
	views bool // takes names of views as arguments
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
