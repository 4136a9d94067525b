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

// csvLines writes a header to buffer to, and returns a function that appends a record as a CSV
// line (RFC 4180).
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

// writeCells writes a line. It quotes every cell, so that no separator within one counts;
// encoding/csv quotes only where CSV requires it.
func writeCells(to *bytes.Buffer, cells []string) {
	for i, cell := range cells {
		if i > 0 {
			to.WriteByte(',')
		}
		to.WriteByte('"')
		to.WriteString(strings.ReplaceAll(escapeFormulas(cell), `"`, `""`))
		to.WriteByte('"')
	}
	to.WriteString("\r\n")
}

const formulaStarts = "=+-@＝＋－＠" // a spreadsheet runs a cell that begins with one of these

// formulaAfterSeparator matches a formula after a character at which a spreadsheet may split a
// line, with white space or quotes in between.
var formulaAfterSeparator = regexp.MustCompile(`([,;|\t\r\n])([\s\x{a0}"]*)([=+\-@＝＋－＠])`)

// escapeFormulas puts an apostrophe before each part of a cell that a spreadsheet would run as a
// formula.
func escapeFormulas(cell string) string {
	if !strings.ContainsAny(cell, formulaStarts+"\t\r\n") {
		return cell
	}
	cell = formulaAfterSeparator.ReplaceAllString(cell, "$1$2'$3")
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, " \u00a0\""))
	if strings.ContainsRune(formulaStarts+"\t\r\n", first) {
		cell = "'" + cell
	}
	return cell
}
