package rest

import (
	"bytes"
	"strconv"
	"time"

	"svc/aggregates"
	"svc/events"
	"svc/projections"
	"svc/proof"
)

// The examples tell of one small workspace. Answers are made of its rows by the
// code that makes answers, so that no example contradicts itself.

const (
	exampleID   = "019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"
	exampleTime = "2026-11-20T23:56:25.123Z"
	exampleHead = "9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"
)

// An illustration is what is sent to an operation, if anything is, and what it
// answers.
type illustration struct{ sent, answered any }

// toldID is exampleID with another end.
func toldID(n byte) events.ID {
	id, err := events.ParseID(exampleID)
	if err != nil {
		panic(err)
	}
	id[len(id)-1] = n
	return id
}

// toldAt is so many minutes before exampleTime.
func toldAt(minutes int) time.Time {
	at, err := time.Parse(time.RFC3339, exampleTime)
	if err != nil {
		panic(err)
	}
	return at.Add(-time.Duration(minutes) * time.Minute)
}

var (
	toldAcme = projections.Workspace{ID: toldID(1), Name: "Acme", Slug: "acme", CreatedAt: toldAt(9000)}
	toldAda  = events.Actor{Type: events.ByUser, ID: toldID(2), Name: "ada@acme.example"}
	toldRepo = events.Repo{ID: toldID(3), Name: "acme/web"}
	toldZoe  = projections.Member{
		ID: toldID(4), User: toldID(5), Name: "Zoë Brandt", Email: "zoe@acme.example", AvatarURL: "https://avatars.example.com/u/583231",
		Role: events.Maintainer, JoinedAt: toldAt(8500), LastActiveAt: new(toldAt(3)),
	}
	toldInvitation = projections.Invitation{
		ID: toldID(6), Email: "bob@example.com", Role: events.Viewer, Status: projections.InvitationPending,
		InviterName: toldAda.Name, InviterRole: events.Owner, SentAt: toldAt(60), ExpiresAt: toldAt(60).Add(events.InvitationLifetime),
	}
	toldAccount = projections.ServiceAccount{
		ID: toldID(7), Name: "ci-bot", Scopes: []events.Scope{events.ReadAPI}, Tail: "x9Qa", Status: "active",
		CreatedBy: toldAda.Name, CreatedAt: toldAt(500),
	}
	toldQueued = projections.Run{
		ID: toldID(8), Repo: toldRepo.ID, RepoName: toldRepo.Name, IssueNumber: 7, IssueTitle: "Fix date parsing",
		Status: events.RunInQueue, Active: true, CreatedAt: toldAt(60), UpdatedAt: toldAt(60),
	}
	toldDecision = projections.Waiting{
		Decision: projections.Decision{
			ID: toldID(9), Run: toldQueued.ID, Kind: events.MergeApproval, Question: "Merge #12 into main?", Head: exampleHead, RaisedAt: toldAt(5),
		},
		ByRun: toldRun(),
	}
	toldSystem = system{Status: "ok", Dependencies: []systemDependency{{Name: "database", Status: "up"}, {Name: "engine", Status: "up"}}}
)

// toldRun is the run of toldQueued an hour later: somebody is asked to merge it.
func toldRun() projections.Run {
	r, pr := toldQueued, 12
	r.Stage, r.Status, r.PRNumber, r.CostCents, r.UpdatedAt = events.StageMerge.Index(), events.RunAwaitingApproval, &pr, 112, toldAt(5)
	d := &r.Detail
	d.Branch, d.Head = "run/7", exampleHead
	for i := range events.Stages() {
		d.Stages = append(d.Stages, projections.RunStage{
			Status: "succeeded", Attempt: 1, StartedAt: new(toldAt(60 - 9*i)), FinishedAt: new(toldAt(51 - 9*i)),
		})
	}
	last := &d.Stages[r.Stage]
	last.Status, last.FinishedAt = "blocked", nil
	d.Files = []events.FileChange{{Path: "web/date.go", Added: 12, Removed: 3}, {Path: "web/date_test.go", Added: 29}}
	d.Jobs = []projections.RunJob{{ID: toldID(10), Name: "build and test", Status: "succeeded", ComputeMS: 84_000}}
	d.Guardrails, d.Checks = "clean", []events.Guardrail{{Check: "protected_paths", Status: "pass"}}
	return r
}

// toldRecords are the first events of the workspace.
func toldRecords() (list []projections.AuditRecord) {
	n := byte(0)
	tell := func(target projections.Target, changes []projections.Change, e events.Event, data string) {
		n++
		list = append(list, projections.AuditRecord{
			Record: events.Record{
				Workspace: toldAcme.ID, Seq: int64(n), ID: toldID(20 + n), Stream: toldAcme.ID, Version: int(n), Schema: 1, At: toldAt(9500 - 500*int(n)),
				Envelope: events.Envelope{Actor: toldAda, Origin: events.FromAPI, IP: "203.0.113.7", UserAgent: "curl/8.14.1", RequestID: exampleID},
				Event:    e, Data: []byte(data),
			},
			Action: e.Kind(), Target: target, Changes: changes,
		})
	}
	zoe := projections.Target{Type: "member", ID: toldZoe.ID, Name: toldZoe.Email}
	tell(projections.Target{Type: "workspace", ID: toldAcme.ID, Name: toldAcme.Slug}, []projections.Change{},
		events.WorkspaceCreated{Name: toldAcme.Name, Slug: toldAcme.Slug}, `{"name":"Acme","slug":"acme"}`)
	tell(zoe, []projections.Change{{Field: "role", To: events.Viewer}},
		events.MemberJoined{Member: toldZoe.ID, User: toldZoe.User, Email: toldZoe.Email, Name: toldZoe.Name, Role: events.Viewer},
		`{"memberId":"`+toldZoe.ID.String()+`","userId":"`+toldZoe.User.String()+`","email":"zoe@acme.example","role":"Viewer"}`)
	tell(zoe, []projections.Change{{Field: "role", From: events.Viewer, To: events.Maintainer}},
		events.MemberRoleChanged{Member: toldZoe.ID, User: toldZoe.User, Email: toldZoe.Email, From: events.Viewer, To: events.Maintainer},
		`{"memberId":"`+toldZoe.ID.String()+`","userId":"`+toldZoe.User.String()+`","email":"zoe@acme.example","from":"Viewer","to":"Maintainer"}`)
	return list
}

// toldExport is an export of these records.
func toldExport(format string) string {
	var text bytes.Buffer
	write := (&export{format: format}).lines(&text)
	for _, r := range toldRecords() {
		if err := write(r); err != nil {
			panic(err)
		}
	}
	return text.String()
}

// examples returns those of each operation that speaks JSON.
func examples() map[string]illustration {
	type object = map[string]any
	s := &Server{Now: func() time.Time { return toldAt(0) }}
	ada := &caller{person: &person{role: events.Owner, approveLoops: true}}
	page, run, records := Paging{Limit: 25}, toldRun(), toldRecords()
	newest := records[len(records)-1]

	cancelled, revoked, rotated := toldQueued, toldAccount, toldAccount
	cancelled.Status, cancelled.UpdatedAt = events.RunIsCancelled, toldAt(0)
	revoked.Status, revoked.RevokedAt = "revoked", new(toldAt(0))
	rotated.RotatedAt = new(toldAt(0))
	token := func(a projections.ServiceAccount) object {
		return object{"account": newServiceAccount(a), "token": "tok_svc_…" + a.Tail}
	}
	zoe, ticked := toldZoe, true
	zoe.ApproveLoops = &ticked
	resent := toldInvitation
	resent.ExpiresAt = toldAt(0).Add(events.InvitationLifetime)
	acme := workspace{toldAcme.ID.String(), toldAcme.Name, toldAcme.Slug, at(toldAcme.CreatedAt), string(events.Owner)}

	state := &projections.State{}
	replayed, err := replay(state, records)
	if err != nil {
		panic(err)
	}
	log := auditAnswer{}
	log.Body.Items, log.Body.NextCursor = []AuditRecord{newAuditRecord(newest)}, strconv.FormatInt(newest.Seq, 10)

	return map[string]illustration{
		"listRuns":   {answered: newList([]projections.Run{run}, 1, page, newRun)},
		"getRun":     {answered: newRunDetail(run)},
		"cancelRun":  {object{"reason": "No longer needed."}, newRun(cancelled)},
		"queueIssue": {object{"repoId": toldRepo.ID, "issueNumber": toldQueued.IssueNumber, "title": toldQueued.IssueTitle}, newRun(toldQueued)},

		"listInbox": {answered: inbox{
			sentence{ada.inboxSentence(1, 1)},
			newList([]projections.Waiting{toldDecision}, 1, page, func(w projections.Waiting) inboxItem { return newInboxItem(w, ada) }),
		}},
		"answerDecision": {
			object{"action": aggregates.ActionApproveAndMerge, "note": "The test covers it.", "expectedHead": exampleHead},
			decidedBody{toldDecision.ID.String(), toldDecision.Kind, toldDecision.Run.String(), aggregates.ActionApproveAndMerge},
		},
		"getInsights": {answered: newInsights(
			projections.Count{Runs: 9, Merged: 6, Autonomous: 5, Untouched: 6, CostCents: 804, Interventions: 4,
				Cycle: &projections.Durations{Whole: 5_400_000, Working: 2_700_000, Person: 1_800_000, Farm: 600_000}},
			projections.Count{Runs: 8, Merged: 4, Autonomous: 3, Untouched: 4, CostCents: 640, Interventions: 6,
				Cycle: &projections.Durations{Whole: 7_200_000, Working: 3_000_000, Person: 3_600_000, Farm: 540_000}},
			time.Date(2026, time.October, 22, 0, 0, 0, 0, time.UTC), time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC),
		).Body},
		"getDashboard": {answered: newDashboard(projections.Overview{ByStage: []int{0, 0, 0, 0, 0, 0, 1}, Waiting: 1, Recent: []projections.Run{run}}, toldSystem)},

		"getWorkspace":    {answered: acme},
		"renameWorkspace": {object{"name": acme.Name, "slug": acme.Slug}, acme},

		"listMembers":      {answered: memberList{List: newList([]projections.Member{toldZoe}, 1, page, func(m projections.Member) member { return newMember(m, toldAda.ID) })}},
		"updateMember":     {object{"role": zoe.Role, "canApproveLoops": ticked}, newMember(zoe, toldAda.ID)},
		"listInvitations":  {answered: newList([]projections.Invitation{toldInvitation}, 1, page, s.newInvitation)},
		"sendInvitation":   {object{"email": toldInvitation.Email, "role": toldInvitation.Role}, s.newInvitation(toldInvitation)},
		"resendInvitation": {answered: s.newInvitation(resent)},

		"listServiceAccounts":  {answered: newList([]projections.ServiceAccount{toldAccount}, 1, page, newServiceAccount)},
		"createServiceAccount": {object{"name": toldAccount.Name, "scopes": toldAccount.Scopes}, token(toldAccount)},
		"rotateServiceAccount": {answered: token(rotated)},
		"revokeServiceAccount": {answered: newServiceAccount(revoked)},

		"listAudit":      {answered: log.Body},
		"getAuditRecord": {answered: storedRecord{newAuditRecord(newest), storedEvent{newest.Event.Kind(), newest.Schema, newest.Data}}},
		"getAuditState":  {answered: newState(state)},
		"replayAudit":    {answered: replayed.Body},
		"verifyAudit": {answered: newVerifyAnswer(proof.Report{
			Workspace: toldAcme.ID, Size: int64(len(records)), Head: int64(len(records)), CheckedAt: toldAt(0), VerifierKey: "svc.example.com+5f2a9c01+AbCd",
			Checkpoint: "svc.example.com/" + toldAcme.ID.String() + "\n3\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— svc.example.com Az3grl…\n",
		}).Body},
	}
}
