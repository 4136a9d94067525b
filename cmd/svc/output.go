package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// An output interleaves the lines of several programs, each with the name of its program. The log
// has all of them.
type output struct {
	mu     sync.Mutex
	w      io.Writer
	colour bool

	quiet bool      // shows of other programs than svc only warnings and errors
	log   io.Writer // nil before there is a data folder
}

// newOutput colours names if f is a terminal, unless the user's environment forbids it.
func newOutput(f *os.File) *output {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &output{w: f, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// colours are the ANSI colour codes of names.
var colours = map[string]int{
	"svc": 36, "svc-codehost": 34, "svc-db": 33, "svc-engine": 35, "svc-gateway": 95, "svc-rest": 32, "svc-runner": 96, "svc-ui": 92,
}

// named returns a writer for the lines of one program.
func (o *output) named(name string) *lines {
	plain := fmt.Sprintf("%-10s │ ", name)
	l := &lines{to: o, plain: plain, prefix: plain, own: name == "svc"}
	if o.colour {
		l.prefix = fmt.Sprintf("\x1b[%dm%s\x1b[0m", colours[name], plain)
	}
	return l
}

// logTo has everything that follows written to a log, too.
func (o *output) logTo(log io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = log
}

// loud matches warnings and errors, as the programs log them.
var loud = regexp.MustCompile(`^(time=\S+ level=|\{"time":"[^"]*","level":")(WARN|ERROR)\b`)

// line writes a line of a program, and reports whether it is shown.
func (o *output) line(l *lines, text string) (shown bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log != nil {
		_, _ = io.WriteString(o.log, l.plain+text+"\n") // there is nowhere to report an error
	}
	shown = l.own || !o.quiet || loud.MatchString(text)
	if shown {
		_, _ = io.WriteString(o.w, l.prefix+text+"\n")
	}
	return shown
}

// logger returns a logger for people: it writes the message and its attributes, preceded by the
// level unless that is info.
func (o *output) logger(name string) *slog.Logger {
	return slog.New(noteHandler{slog.NewTextHandler(o.named(name), nil), o, name})
}

// noteHandler is the handler of that logger. It replaces only Handle of a text handler.
type noteHandler struct {
	slog.Handler
	out  *output
	name string
}

// Handle writes one line.
func (n noteHandler) Handle(_ context.Context, r slog.Record) error {
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
	_, _ = io.WriteString(o.w, text) // there is nowhere to report an error
}

// maxLine bounds the buffer of an unfinished line.
const maxLine = 64 << 10

// maxHidden bounds the lines that are kept to be shown if their program fails.
const maxHidden = 20

// lines is a writer that passes on whole lines. It must not be used concurrently.
type lines struct {
	to            *output
	prefix, plain string // the latter without colours
	own           bool   // of svc itself
	partial       []byte
	hidden        []string // the last lines that were not shown
}

func (l *lines) Write(p []byte) (int, error) {
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			break
		}
		l.pass(string(line))
		l.partial = rest
	}
	if len(l.partial) >= maxLine {
		l.flush()
	}
	return len(p), nil
}

// flush ends an unfinished line.
func (l *lines) flush() {
	if len(l.partial) > 0 {
		l.pass(string(l.partial))
		l.partial = nil
	}
}

func (l *lines) pass(line string) {
	if l.to.line(l, line) {
		return
	}
	if len(l.hidden) == maxHidden {
		l.hidden = slices.Delete(l.hidden, 0, 1)
	}
	l.hidden = append(l.hidden, line)
}

// reveal shows the last lines that were not shown.
func (l *lines) reveal() {
	for _, line := range l.hidden {
		l.to.print(l.prefix + line + "\n")
	}
	l.hidden = nil
}
