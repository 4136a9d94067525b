package rest

import (
	"strconv"

	"svc/events"
	"svc/projections"
)

// exampleRecords returns the first events of the example workspace.
func exampleRecords() (list []projections.AuditRecord) {
	n := byte(0)
	add := func(target events.Target, changes []events.Change, e events.Event, data string) {
		n++
		list = append(list, projections.AuditRecord{
			Record: events.Record{
				Workspace: exampleAcme.ID, Seq: int64(n), ID: exampleNo(20 + n), Stream: exampleAcme.ID, Version: int(n), Schema: 1,
				At: exampleAt(9500 - 500*int(n)),
				Envelope: events.Envelope{Actor: exampleAda, Origin: events.FromAPI, IP: "203.0.113.7",
					UserAgent: "curl/8.14.1", RequestID: exampleID},
				Event: e, Data: []byte(data),
			},
			Action: e.Kind(), Target: target, Changes: changes,
		})
	}
	zoe := events.Target{Type: "member", ID: exampleZoe.ID, Name: exampleZoe.Email}
	add(events.Target{Type: "workspace", ID: exampleAcme.ID, Name: exampleAcme.Slug}, []events.Change{},
		events.WorkspaceCreated{Name: exampleAcme.Name, Slug: exampleAcme.Slug}, `{"name":"Acme","slug":"acme"}`)
	add(zoe, []events.Change{{Field: "role", To: events.Viewer}},
		events.MemberJoined{Member: exampleZoe.ID, User: exampleZoe.User, Email: exampleZoe.Email,
			Name: exampleZoe.Name, Role: events.Viewer},
		`{"memberId":"`+exampleZoe.ID.String()+`","userId":"`+exampleZoe.User.String()+`","email":"zoe@acme.example","role":"Viewer"}`)
	add(zoe, []events.Change{{Field: "role", From: events.Viewer, To: events.Maintainer}},
		events.MemberRoleChanged{Member: exampleZoe.ID, User: exampleZoe.User, Email: exampleZoe.Email,
			From: events.Viewer, To: events.Maintainer},
		`{"memberId":"`+exampleZoe.ID.String()+`","userId":"`+exampleZoe.User.String()+
			`","email":"zoe@acme.example","from":"Viewer","to":"Maintainer"}`)
	return list
}

func exampleAudit() *auditAnswer {
	newest := newestExample()
	out := &auditAnswer{}
	out.Body.Items, out.Body.NextCursor = []AuditRecord{newAuditRecord(newest)}, strconv.FormatInt(newest.Seq, 10)
	out.Body.Head, out.Body.Total = newest.Seq, &auditTotal{3, true}
	return out
}

func exampleStored() storedRecord {
	newest := newestExample()
	return storedRecord{newAuditRecord(newest), storedEvent{newest.Event.Kind(), newest.Schema, newest.Data}}
}

func newestExample() projections.AuditRecord {
	list := exampleRecords()
	return list[len(list)-1]
}
