// Package config reads a program's configuration from the environment into
// one commented struct.
//
// A field says all there is to know about its variable:
//
//	type Config struct {
//		Addr   config.Addr   `env:"SVC_ENGINE_ADDR" envDefault:":4001" doc:"Address to listen on."`
//		Secret config.Secret `env:"SVC_ENGINE_SHARED_SECRET,required,notEmpty" min:"16" doc:"Shared with the REST service."`
//	}
//
// The same struct drives [Parse], the start-up line of [Print] and the manual
// of [Reference]. Structs may be nested or embedded; they group, nothing else.
//
// The tag min is the least number of bytes of a [Secret] that is set, the tag
// schemes lists those that a [URL] may have, with commas between. The tag
// required takes a variable that is set to nothing, so it goes with notEmpty.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// A Problem is one variable that keeps a program from starting. It never
// holds the variable's value.
type Problem struct {
	Variable string
	Reason   string // such as "is missing"
}

// An Error names every variable that is missing or malformed.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Variable + " " + p.Reason
	}
	return strings.Join(texts, "; ")
}

// Parse fills a T from environ, whose entries have the form name=value as
// those of [os.Environ]. The error is an [*Error].
//
// Parse panics if T does not describe its variables properly: see [Secret],
// [URL] and the doc tag.
func Parse[T any](environ []string) (T, error) {
	var cfg T
	opts := env.Options{Environment: env.ToMap(environ)}
	var problems []Problem
	for _, f := range fieldsOf(&cfg) {
		if reason := f.parse(opts); reason != "" {
			problems = append(problems, Problem{f.variable, reason})
		}
	}
	if problems != nil {
		return cfg, &Error{problems}
	}
	return cfg, nil
}

// parse sets one field, and returns what is wrong with its variable.
//
// The field is parsed as a struct of its own: an error of the library names
// the Go field, of which there may be several, and often quotes the value.
func (f field) parse(opts env.Options) string {
	alone := reflect.New(reflect.StructOf([]reflect.StructField{f.tags}))
	err := env.ParseWithOptions(alone.Interface(), opts)
	if err != nil {
		return f.reason(err)
	}
	f.value.Set(alone.Elem().Field(0))
	for _, s := range f.secrets() {
		if s != "" && len(s) < f.min {
			return fmt.Sprintf("is malformed: want at least %d bytes", f.min)
		}
	}
	if u, ok := f.value.Interface().(URL); ok && !u.IsZero() && f.schemes != nil && !slices.Contains(f.schemes, u.URL().Scheme) {
		return "is malformed: want " + strings.Join(f.schemes, ":// or ") + "://"
	}
	return ""
}

func (f field) reason(err error) string {
	if errors.Is(err, env.VarIsNotSetError{}) || errors.Is(err, env.EmptyVarError{}) {
		return "is missing"
	}
	if parse, ok := errors.AsType[env.ParseError](err); ok {
		if w, ok := errors.AsType[want](parse.Err); ok {
			return "is malformed: " + w.Error()
		}
	}
	return "is malformed: " + f.want().Error()
}

// Print logs one line with every variable of cfg, a struct or a pointer to
// one. Secrets read [redacted]; a secret that is not set reads as nothing.
func Print(log *slog.Logger, cfg any) {
	var attrs []any
	for _, f := range fieldsOf(cfg) {
		attrs = append(attrs, slog.String(f.variable, f.show()))
	}
	log.Info("configuration", attrs...)
}
