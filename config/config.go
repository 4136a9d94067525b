// Package config reads a program's configuration from the environment into one documented
// struct.
//
// A field's tags describe its variable completely:
//
//	type Config struct {
//		Addr   config.Addr   `env:"SVC_ENGINE_ADDR" envDefault:":4001" doc:"Address to listen on."`
//		Secret config.Secret `env:"SVC_ENGINE_SHARED_SECRET,required,notEmpty" min:"16" doc:"Shared with the REST service."`
//	}
//
// [Parse], the start-up line of [Print] and the manual of [Reference] all use the same
// struct. Structs may be nested or embedded, which only groups fields.
//
// The tag min is the minimum number of bytes of a [Secret], if it is set. The tag schemes
// lists the schemes that a [URL] may have, separated by commas. The option required accepts
// a variable that is set to the empty string, so combine it with notEmpty.
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

// A Problem is a variable that prevents a program from starting. It never contains the
// variable's value.
type Problem struct {
	Variable string
	Reason   string // such as "is missing"
}

// An Error lists every variable that is missing or malformed.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Variable + " " + p.Reason
	}
	return strings.Join(texts, "; ")
}

// Parse returns a T filled in from environ, whose entries have the form name=value as in
// [os.Environ]. The error is an [*Error].
//
// Parse panics if T does not declare its variables properly: see [Secret], [URL] and the
// doc tag.
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

// parse sets one field, and returns what is wrong with its variable, "" if nothing is.
//
// The field is parsed in a struct of its own, because the library's errors name the Go
// field, of which there may be several, and often quote the value.
func (f field) parse(opts env.Options) string {
	single := reflect.New(reflect.StructOf([]reflect.StructField{f.tags}))
	err := env.ParseWithOptions(single.Interface(), opts)
	if err != nil {
		return f.reason(err)
	}
	f.value.Set(single.Elem().Field(0))
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

// Print logs one line with every variable of cfg, a struct or a pointer to one. Secrets are
// printed as [redacted], unset secrets as nothing.
func Print(log *slog.Logger, cfg any) {
	var attrs []any
	for _, f := range fieldsOf(cfg) {
		attrs = append(attrs, slog.String(f.variable, f.show()))
	}
	log.Info("configuration", attrs...)
}
