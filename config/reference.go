package config

import (
	"fmt"
	"io"
	"strings"
)

// Reference writes a Markdown table of the variables of cfg, a struct or a pointer to one.
func Reference(w io.Writer, cfg any) error {
	var b strings.Builder
	b.WriteString("| Variable | Default | Required | Secret | Meaning |\n|---|---|---|---|---|\n")
	for _, f := range fieldsOf(cfg) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n",
			f.variable, f.defaultText(), yes(f.required), yes(f.secret()), cell(f.meaning()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f field) defaultText() string {
	if f.fallback == "" {
		return ""
	}
	return "`" + cell(f.fallback) + "`"
}

func (f field) meaning() string {
	if f.min > 0 {
		return fmt.Sprintf("%s At least %d bytes.", f.doc, f.min)
	}
	return f.doc
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// cell escapes the characters that would end a table cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
