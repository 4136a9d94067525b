package rest

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"svc/projections"
)

const csvHeader = "seq,id,at,action,outcome,code,actorType,actorId,actorName,targetType,targetId,targetName,changes,origin,ip,userAgent,requestId,tokenTail"

// csvLines writes records as RFC 4180 has it, after a header.
func csvLines(to *bytes.Buffer) func(projections.AuditRecord) error {
	w := csv.NewWriter(to)
	w.UseCRLF = true
	to.WriteString(csvHeader + "\r\n")
	return func(found projections.AuditRecord) error {
		r := newAuditRecord(found)
		changes, err := json.Marshal(r.Changes)
		if err != nil {
			return err
		}
		cells := []string{
			strconv.FormatInt(r.Seq, 10), r.ID, string(r.At), r.Action, r.Outcome, r.Code,
			string(r.Actor.Type), r.Actor.ID, r.Actor.Name, r.Target.Type, r.Target.ID, r.Target.Name, string(changes),
			string(r.Context.Origin), r.Context.IP, r.Context.UserAgent, r.Context.RequestID, r.Context.TokenTail,
		}
		for i := range cells {
			cells[i] = inert(cells[i])
		}
		if err := w.Write(cells); err != nil {
			return err
		}
		w.Flush()
		return w.Error()
	}
}

// inert keeps a spreadsheet from taking a text for a formula: what begins like
// one, also behind white space, gets an apostrophe before it.
func inert(cell string) string {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, " \u00a0"))
	if strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + cell
	}
	return cell
}
