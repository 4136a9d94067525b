package audit

import (
	"context"
	"time"

	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/proof"
)

func (s *Server) proofRoutes() door.Section {
	return door.Section{Tag: "Audit", Routes: []door.Route{
		door.Query(s.verifyAudit, door.Route{
			Method: "GET", Path: "/audit/verify", Guard: door.MayDo(events.ExportAudit), Views: []string{proof.FollowerName},
			Limits: middleware.Limits{Time: verifyLimit},
			ID:     "verifyAudit", Summary: "Verify the audit log",
			Text: "Recomputes the workspace's Merkle log from its events and compares it with the stored hashes and signed checkpoints, up " +
				"to the head of the log. It reads the whole log, which takes a while. Logs are signed about once a second; this request " +
				"has the log signed at once and waits up to ten seconds for it.\n\n" +
				"Store `checkpoint` and `verifierKey` outside the service. Anybody who can write to the database can roll the log back and " +
				"have it signed again, but the result does not follow from a checkpoint that you kept: send that as `since`.\n\n" +
				"503 `signing_key_unavailable` if the signing key cannot be opened, until an operator restores or replaces it. A " +
				"replacement is recorded as `signing_key.replaced`.",
			Refuses:       []*fault.Fault{proof.ErrSigningKey},
			AnswerExample: exampleVerified().Body,
			OwnSlot:       true,
		}),
		door.Query(s.lastVerification, door.Route{
			Method: "GET", Path: "/audit/verification", Guard: door.MayDo(events.ReadAudit),
			ID: "getLastVerification", Summary: "Get the last verification",
			Text: "Returns the stored result of the last `GET /audit/verify` without `since`. Nothing is computed. " +
				"404 `audit_not_verified` if the log has not been verified yet.",
			Refuses:       []*fault.Fault{errNotVerified},
			AnswerExample: exampleVerified().Body,
		}),
	}}
}

// verifyLimit bounds a verification. It also ends when its caller disconnects.
const verifyLimit = 15 * time.Minute

type verifyAnswer struct {
	Body struct {
		OK            bool               `json:"ok" doc:"Whether every signed record is unchanged, and no record has been unsigned for more than a few seconds."`
		Size          int64              `json:"size" doc:"Number of records that the newest checkpoint covers."`
		Head          int64              `json:"head" doc:"Number of records in the log. None of those after size is missing, but their content is not signed yet."`
		Unsigned      int64              `json:"unsigned" doc:"Number of records after size, which will be signed shortly."`
		UnsignedSince *openapi.Timestamp `json:"unsignedSince" nullable:"true" doc:"When the first unsigned record was recorded; null if there is none."`
		Root          string             `json:"root" doc:"Root hash of the Merkle log, computed from the records, in base64." example:"nND/nri/U0xuHUrYSy0HtMeal2vzD9V4k/BO79C+QeI="`
		Checkpoint    string             `json:"checkpoint" doc:"The newest checkpoint, a signed note. Empty if there is none yet." example:"svc.example.com/019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9\n4182\nnND/nri/U0xuHUrYSy0HtMeal2vzD9V4k/BO79C+QeI=\n\n— svc.example.com Az3grl…\n"`
		VerifierKey   string             `json:"verifierKey" doc:"The public key that verifies the checkpoint. Compare it with your own copy." example:"svc.example.com+5f2a9c01+AbCd"`
		FormerKeys    []formerKey        `json:"formerKeys" nullable:"false" doc:"Earlier signing keys that were lost, newest first, as recorded in the log. An older checkpoint signed by one of them can still be sent as since."`
		CheckedAt     openapi.Timestamp  `json:"checkedAt"`
		FirstBad      *badRecord         `json:"firstBad" doc:"The first problem found; null if ok."`
	}
}

type formerKey struct {
	VerifierKey string `json:"verifierKey" doc:"The public key of the lost key. Compare it with your own copy." example:"svc.example.com+33c1d7ae+AQk9"`
	UpTo        int64  `json:"upTo" doc:"The seq of the last record that it signed."`
	ReplacedIn  int64  `json:"replacedIn" doc:"The seq of the record of its replacement. Records in between were unsigned until then."`
}

type badRecord struct {
	_      struct{} `nullable:"true"`
	Seq    int64    `json:"seq" doc:"The seq of the first record that differs from what was signed; 0 if the problem is not in a record."`
	Reason string   `json:"reason" example:"the record was changed"`
}

var errNotVerified = fault.New(fault.NotFound, "audit_not_verified", "This audit log has not been verified yet.")

func (s *Server) lastVerification(ctx context.Context, _ *struct{}) (*verifyAnswer, error) {
	report, ok, err := s.Prover.Last(ctx, door.CallerOf(ctx).Workspace)
	if err := door.CheckFound(ok, err, errNotVerified); err != nil {
		return nil, err
	}
	return newVerifyAnswer(report), nil
}

type verifyQuery struct {
	Since string `query:"since" maxLength:"1000" doc:"A checkpoint that you kept earlier. The verification fails unless the log continues from it, which detects a log that was rolled back or signed again from the start."`
}

func (s *Server) verifyAudit(ctx context.Context, in *verifyQuery) (*verifyAnswer, error) {
	if err := s.AcquireSlot(ctx, s.Bounds.Verifications); err != nil {
		return nil, err
	}
	report, err := s.Prover.Verify(ctx, door.CallerOf(ctx).Workspace, in.Since, nil)
	if err != nil {
		return nil, err
	}
	return newVerifyAnswer(report), nil
}

func newVerifyAnswer(r proof.Report) *verifyAnswer {
	out := &verifyAnswer{}
	b := &out.Body
	b.OK, b.Size, b.Root, b.CheckedAt = r.Bad == nil, r.Size, r.Root.String(), openapi.FormatTime(r.CheckedAt)
	b.Checkpoint, b.VerifierKey = r.Checkpoint, r.VerifierKey
	b.FormerKeys = make([]formerKey, 0, len(r.Former))
	for _, f := range r.Former {
		b.FormerKeys = append(b.FormerKeys, formerKey{f.VerifierKey, f.UpTo, f.ReplacedIn})
	}
	b.Head, b.Unsigned = r.Head, r.Unsigned
	if !r.UnsignedSince.IsZero() {
		b.UnsignedSince = openapi.FormatOptionalTime(&r.UnsignedSince)
	}
	if r.Bad != nil {
		b.FirstBad = &badRecord{Seq: r.Bad.Seq, Reason: r.Bad.Reason}
	}
	return out
}

func exampleVerified() *verifyAnswer {
	n := newestExample().Seq
	return newVerifyAnswer(proof.Report{
		Workspace: schema.ExampleAcme.ID, Size: n, Head: n, CheckedAt: schema.ExampleAt(0), VerifierKey: "svc.example.com+5f2a9c01+AbCd",
		Checkpoint: "svc.example.com/" + schema.ExampleAcme.ID.String() +
			"\n3\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— svc.example.com Az3grl…\n",
	})
}
