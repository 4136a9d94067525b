package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// An output interleaves the lines of several programs and says whose each is.
type output struct {
	mu     sync.Mutex
	w      io.Writer
	colour bool
}

// newOutput colours names if f is a terminal whose user has nothing against it.
func newOutput(f *os.File) *output {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &output{w: f, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// colours of the names, as ANSI codes.
var colours = map[string]int{"svc": 36, "svc-db": 33, "svc-engine": 35, "svc-rest": 32}

// named returns a writer for the lines of one program.
func (o *output) named(name string) *lines {
	prefix := fmt.Sprintf("%-10s │ ", name)
	if o.colour {
		prefix = fmt.Sprintf("\x1b[%dm%s\x1b[0m", colours[name], prefix)
	}
	return &lines{to: o, prefix: prefix}
}

// logger logs as name, for people: the message and what belongs to it, after
// the level if that is not the ordinary one.
func (o *output) logger(name string) *slog.Logger {
	return slog.New(notes{slog.NewTextHandler(o.named(name), nil), o, name})
}

// notes are the lines of a logger. Only Handle differs from a text handler's.
type notes struct {
	slog.Handler
	out  *output
	name string
}

// Handle writes one line.
func (n notes) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	if r.Level != slog.LevelInfo {
		b.WriteString(r.Level.String() + ": ")
	}
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%q", a.Key, a.Value)
		return true
	})
	fmt.Fprintln(n.out.named(n.name), b.String())
	return nil
}

// print writes text as it is.
func (o *output) print(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = io.WriteString(o.w, text) // nobody is left to read why not
}

// maxLine is how much is kept of a line that does not end.
const maxLine = 64 << 10

// lines passes on whole lines. It is for one goroutine at a time.
type lines struct {
	to      *output
	prefix  string
	partial []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			break
		}
		l.to.print(l.prefix + string(line) + "\n")
		l.partial = rest
	}
	if len(l.partial) >= maxLine {
		l.flush()
	}
	return len(p), nil
}

// flush ends a line that was not ended.
func (l *lines) flush() {
	if len(l.partial) > 0 {
		l.to.print(l.prefix + string(l.partial) + "\n")
		l.partial = nil
	}
}
