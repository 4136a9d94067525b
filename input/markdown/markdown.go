// Package markdown tells what people see of a document from what they do not.
package markdown

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"svc/input"
)

// Hidden counts what a document has that its readers do not see.
type Hidden struct {
	Comments   int // HTML comments, titles of links that are defined apart from where they are used
	Characters int // that are drawn as nothing where they are
}

// Some reports whether anything is hidden.
func (h Hidden) Some() bool { return h != Hidden{} }

// The kinds of the bytes of a document.
const (
	prose = iota
	code
	comment
)

// A longer or more deeply nested document is taken to have no code: reading it would take long.
const (
	maxMarkdown = 64 << 10 // bytes, as many as an issue at GitHub has
	maxNesting  = 50       // of quotations and lists that begin in one line
)

var nested = regexp.MustCompile(`(?m)^(?:[ \t]*(?:>|[-*+]|[0-9]{1,9}[.)])){` + strconv.Itoa(maxNesting) + `}`)

// definition matches the definition of a link. Its first group is the title, which is shown nowhere.
var definition = regexp.MustCompile(`(?m)^(?:[ \t]|>|[-*+] )*\[[^\]\n]+\]:[ \t]*\n?[ \t]*\S+(?:[ \t]+|[ \t]*\n[ \t]*)` +
	`("(?:[^"\n]|\n[ \t]*[^"\s])*"|'(?:[^'\n]|\n[ \t]*[^'\s])*'|\((?:[^()\n]|\n[ \t]*[^()\s])*\))[ \t]*$`)

// markdownParser finds code and HTML. Other parts of lines bind less tightly.
var markdownParser = parser.NewParser(
	parser.WithBlockParsers(parser.DefaultBlockParsers()...),
	parser.WithInlineParsers(util.Prioritized(parser.NewCodeSpanParser(), 1), util.Prioritized(parser.NewAutoLinkParser(), 2),
		util.Prioritized(parser.NewRawHTMLParser(), 3)),
)

// Shown returns what people see of a document in Markdown, so that a program that reads it sees no more than they
// do. Code stays as it is, byte for byte.
func Shown(markdown string) (string, Hidden) {
	d := document{source: []byte(markdown), kinds: make([]byte, len(markdown))}
	if len(markdown) > maxMarkdown || nested.MatchString(markdown) {
		d.hideComments([]text.Segment{text.NewSegment(0, len(markdown))})
		d.hideTitles()
		return d.shown(), d.hidden
	}
	root := markdownParser.Parse(text.NewReader(d.source))
	d.each(root, ast.KindCodeBlock, func(n ast.Node) { d.keep(n.Lines().Sliced(0, n.Lines().Len())...) })
	d.each(root, ast.KindFencedCodeBlock, func(n ast.Node) { d.keep(n.Lines().Sliced(0, n.Lines().Len())...) })
	d.hideTitles()
	d.each(root, ast.KindCodeSpan, func(n ast.Node) {
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			d.keep(c.(*ast.Text).Segment)
		}
	})
	d.each(root, ast.KindRawHTML, func(n ast.Node) {
		parts := n.(*ast.RawHTML).Segments
		d.hideComments(parts.Sliced(0, parts.Len()))
	})
	d.each(root, ast.KindHTMLBlock, func(n ast.Node) {
		lines := slices.Clone(n.Lines().Sliced(0, n.Lines().Len()))
		if html := n.(*ast.HTMLBlock); html.HasClosure() {
			lines = append(lines, html.ClosureLine)
		}
		d.hideComments(lines)
	})
	return d.shown(), d.hidden
}

// A document is one whose bytes have a kind each.
type document struct {
	source, kinds []byte
	hidden        Hidden
}

// each calls f with all nodes of a kind.
func (d *document) each(root ast.Node, kind ast.NodeKind, f func(ast.Node)) {
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it only returns the error of its function
		if entering && n.Kind() == kind {
			f(n)
		}
		return ast.WalkContinue, nil
	})
}

// keep says that segments are code, unless they are hidden.
func (d *document) keep(segments ...text.Segment) {
	for _, s := range segments {
		for i := s.Start; i < s.Stop; i++ {
			d.kinds[i] = max(d.kinds[i], code)
		}
	}
}

func (d *document) hide(segments ...text.Segment) {
	for _, s := range segments {
		for i := s.Start; i < s.Stop; i++ {
			d.kinds[i] = comment
		}
	}
	d.hidden.Comments++
}

// hideTitles hides the titles of links that are defined outside of blocks of code.
func (d *document) hideTitles() {
	for _, at := range definition.FindAllSubmatchIndex(d.source, -1) {
		if d.kinds[at[2]] == prose {
			d.hide(text.NewSegment(at[2], at[3]))
		}
	}
}

// hideComments hides the comments in the lines of HTML. One that does not end hides all that follows.
func (d *document) hideComments(lines []text.Segment) {
	var parts []text.Segment // of the present comment
	for _, line := range lines {
		for at := line.Start; at < line.Stop; {
			rest, from := d.source[at:line.Stop], at
			if parts == nil {
				i := bytes.Index(rest, []byte("<!--"))
				if i < 0 {
					break
				}
				from, at = at+i, at+i+len("<!") // "<!-->" is a whole comment
				rest = d.source[at:line.Stop]
			}
			i := bytes.Index(rest, []byte("-->"))
			if i < 0 {
				parts, at = append(parts, text.NewSegment(from, line.Stop)), line.Stop
				continue
			}
			at += i + len("-->")
			d.hide(append(parts, text.NewSegment(from, at))...)
			parts = nil
		}
	}
	if parts != nil {
		d.hide(parts...)
	}
}

// shown returns the bytes that are not hidden. It hides characters of prose that are drawn as nothing.
func (d *document) shown() string {
	var out strings.Builder
	for from, to := 0, 0; from < len(d.source); from = to {
		for to < len(d.source) && d.kinds[to] == d.kinds[from] {
			to++
		}
		part := string(d.source[from:to])
		switch d.kinds[from] {
		case code:
			out.WriteString(part)
		case prose:
			part = strings.ReplaceAll(part, "\r\n", "\n")
			for part != "" {
				words, between := part, ""
				if i := strings.IndexAny(part, "\t\n"); i >= 0 {
					words, between = part[:i], part[i:i+1]
				}
				seen := input.Visible(words)
				d.hidden.Characters += utf8.RuneCountInString(words) - utf8.RuneCountInString(seen)
				out.WriteString(seen + between)
				part = part[len(words)+len(between):]
			}
		}
	}
	return out.String()
}
