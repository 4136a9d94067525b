package rest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"svc/projections"
)

var csvHeader = []string{
	"seq", "id", "at", "action", "outcome", "code", "actorType", "actorId", "actorName", "targetType", "targetId", "targetName",
	"changes", "origin", "ip", "userAgent", "requestId", "tokenTail",
}

// csvLines writes records as RFC 4180 has it, after a header.
func csvLines(to *bytes.Buffer) func(projections.AuditRecord) error {
	writeCells(to, csvHeader)
	return func(found projections.AuditRecord) error {
		r := newAuditRecord(found)
		changes, err := json.Marshal(r.Changes)
		if err != nil {
			return err
		}
		writeCells(to, []string{
			strconv.FormatInt(r.Seq, 10), r.ID, string(r.At), r.Action, r.Outcome, r.Code,
			string(r.Actor.Type), r.Actor.ID, r.Actor.Name, r.Target.Type, r.Target.ID, r.Target.Name, string(changes),
			string(r.Context.Origin), r.Context.IP, r.Context.UserAgent, r.Context.RequestID, r.Context.TokenTail,
		})
		return nil
	}
}

// writeCells writes a line. Every cell is quoted, so that a separator within it
// is none; encoding/csv quotes only what it has to.
func writeCells(to *bytes.Buffer, cells []string) {
	for i, cell := range cells {
		if i > 0 {
			to.WriteByte(',')
		}
		to.WriteByte('"')
		to.WriteString(strings.ReplaceAll(inert(cell), `"`, `""`))
		to.WriteByte('"')
	}
	to.WriteString("\r\n")
}

const formulas = "=+-@＝＋－＠" // begin what a spreadsheet runs

// split finds the beginning of a formula, also behind white space and quotes,
// after what a spreadsheet may be told, or guess, to split lines at.
var split = regexp.MustCompile(`([,;|\t\r\n])([\s\x{a0}"]*)([=+\-@＝＋－＠])`)

// inert keeps a spreadsheet from taking a text, or a part of it, for a formula:
// what begins like one gets an apostrophe before it.
func inert(cell string) string {
	if !strings.ContainsAny(cell, formulas+"\t\r\n") {
		return cell
	}
	cell = split.ReplaceAllString(cell, "$1$2'$3")
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, " \u00a0\""))
	if strings.ContainsRune(formulas+"\t\r\n", first) {
		cell = "'" + cell
	}
	return cell
}
