package rest

import (
	"bytes"
	"encoding/json"
	"strconv"

	"svc/http/reply"
	"svc/projections"
)

var csvHeader = []string{
	"seq", "id", "at", "action", "outcome", "code", "actorType", "actorId", "actorName", "targetType", "targetId", "targetName",
	"changes", "origin", "ip", "userAgent", "requestId", "tokenTail",
}

// csvLines writes a header to buffer to, and returns a function that appends a record as a CSV
// line (RFC 4180).
func csvLines(to *bytes.Buffer) func(projections.AuditRecord) error {
	write := func(cells ...string) { to.Write(reply.AppendCSV(to.AvailableBuffer(), cells...)) }
	write(csvHeader...)
	return func(found projections.AuditRecord) error {
		r := newAuditRecord(found)
		changes, err := json.Marshal(r.Changes)
		if err != nil {
			return err
		}
		write(
			strconv.FormatInt(r.Seq, 10), r.ID, string(r.At), r.Action, r.Outcome, r.Code,
			string(r.Actor.Type), r.Actor.ID, r.Actor.Name, r.Target.Type, r.Target.ID, r.Target.Name, string(changes),
			string(r.Context.Origin), r.Context.IP, r.Context.UserAgent, r.Context.RequestID, r.Context.TokenTail,
		)
		return nil
	}
}
