package rest

import (
	"context"
	"time"

	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/proof"
)

func (s *Server) proofRoutes() section {
	return section{tag: "Audit", routes: []route{
		query(s.verifyAudit, route{
			method: "GET", path: "/audit/verify", guard: mayDo(events.ExportAudit), views: []string{proof.View},
			limits: middleware.Limits{Time: verifyLimit},
			id:     "verifyAudit", summary: "Verify the audit log",
			text: "Recomputes the Merkle log of the workspace from its events and holds it against the stored hashes and the signed" +
				" checkpoints, and goes on to the head of the log. It reads the whole log, so it takes a while. Logs are signed for " +
				"about once a second, this one at once when it is asked for; what still is not, it gives ten seconds. 503 `signing_key_unavailable` if the key of the checkpoints" +
				" cannot be opened, until its operator restores or replaces it; a replacement is a record, " +
				"`signing_key.replaced`. Keep `checkpoint` and `verifierKey` elsewhere: who may write to the database can set " +
				"everything back and have it signed anew, but not so that a checkpoint which was kept (`since`) still leads to " +
				"it.",
			refuses:  []*fault.Fault{proof.ErrSigningKey},
			answered: exampleVerified().Body,
			ownSlot:  true,
		}),
		query(s.lastVerification, route{
			method: "GET", path: "/audit/verification", guard: mayDo(events.ReadAudit),
			id: "getLastVerification", summary: "What became of the last verification",
			text: "The answer of the last `GET /audit/verify` without `since` that anybody asked for, as it was then: nothing is computed. " +
				"404 `audit_not_verified` if there was none.",
			refuses:  []*fault.Fault{errNotVerified},
			answered: exampleVerified().Body,
		}),
	}}
}

// verifyLimit is how long a verification may take. It ends when its caller goes.
const verifyLimit = 15 * time.Minute

type verifyAnswer struct {
	Body struct {
		OK          bool        `json:"ok" doc:"Whether every record is what was signed for, and nothing is left unsigned for longer than seconds."`
		Size        int64       `json:"size" doc:"How many records the newest checkpoint speaks for."`
		Head        int64       `json:"head" doc:"How many records the log has. None of those after size is missing, but nobody has signed for what they say."`
		Unsigned    int64       `json:"unsigned" doc:"How many records there are after size: they are signed for in a moment."`
		Since       *timestamp  `json:"unsignedSince" nullable:"true" doc:"When the first of those was recorded; null if there is none."`
		Root        string      `json:"root" doc:"The root of the Merkle log as the records make it, in base64." example:"nND/nri/U0xuHUrYSy0HtMeal2vzD9V4k/BO79C+QeI="`
		Checkpoint  string      `json:"checkpoint" doc:"The newest checkpoint, a signed note. Empty if none was signed yet." example:"svc.example.com/019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9\n4182\nnND/nri/U0xuHUrYSy0HtMeal2vzD9V4k/BO79C+QeI=\n\n— svc.example.com Az3grl…\n"`
		VerifierKey string      `json:"verifierKey" doc:"The public key that the checkpoint was verified by. Compare it with a copy of your own." example:"svc.example.com+5f2a9c01+AbCd"`
		FormerKeys  []formerKey `json:"formerKeys" doc:"Keys that signed before and were lost, the newest first, as the log says. What each signed still leads to the checkpoint; who holds an older checkpoint of theirs names it in since."`
		CheckedAt   timestamp   `json:"checkedAt"`
		FirstBad    *badRecord  `json:"firstBad" doc:"null if ok."`
	}
}

type formerKey struct {
	VerifierKey string `json:"verifierKey" doc:"The public side of the key that was lost. Compare it with a copy of your own." example:"svc.example.com+33c1d7ae+AQk9"`
	UpTo        int64  `json:"upTo" doc:"It signed no record after this one."`
	ReplacedIn  int64  `json:"replacedIn" doc:"The record that says so. What lies between was signed by nobody until then."`
}

type badRecord struct {
	_      struct{} `nullable:"true"`
	Seq    int64    `json:"seq" doc:"The first record that is not what was signed for; 0 if it is no record that is wrong."`
	Reason string   `json:"reason" example:"the record was changed"`
}

var errNotVerified = fault.New(fault.NotFound, "audit_not_verified", "Nobody has had this log verified yet.")

func (s *Server) lastVerification(ctx context.Context, _ *struct{}) (*verifyAnswer, error) {
	report, ok, err := s.prover.Last(ctx, callerOf(ctx).workspace)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errNotVerified
	}
	return newVerifyAnswer(report), nil
}

type verifyQuery struct {
	Since string `query:"since" maxLength:"1000" doc:"A checkpoint that you kept: the log has to lead on from it. Whoever sets the log back, or has it signed anew from its beginning, cannot make it do so."`
}

func (s *Server) verifyAudit(ctx context.Context, in *verifyQuery) (*verifyAnswer, error) {
	if err := s.take(ctx, s.bounds.verifications); err != nil {
		return nil, err
	}
	report, err := s.prover.Verify(ctx, callerOf(ctx).workspace, in.Since, nil)
	if err != nil {
		return nil, err
	}
	return newVerifyAnswer(report), nil
}

func newVerifyAnswer(r proof.Report) *verifyAnswer {
	out := &verifyAnswer{}
	b := &out.Body
	b.OK, b.Size, b.Root, b.CheckedAt = r.Bad == nil, r.Size, r.Root.String(), at(r.CheckedAt)
	b.Checkpoint, b.VerifierKey = r.Checkpoint, r.VerifierKey
	b.FormerKeys = make([]formerKey, 0, len(r.Former))
	for _, f := range r.Former {
		b.FormerKeys = append(b.FormerKeys, formerKey{f.VerifierKey, f.UpTo, f.ReplacedIn})
	}
	b.Head, b.Unsigned = r.Head, r.Unsigned
	if !r.UnsignedSince.IsZero() {
		b.Since = optional(&r.UnsignedSince)
	}
	if r.Bad != nil {
		b.FirstBad = &badRecord{Seq: r.Bad.Seq, Reason: r.Bad.Reason}
	}
	return out
}

func exampleVerified() *verifyAnswer {
	n := newestExample().Seq
	return newVerifyAnswer(proof.Report{
		Workspace: exampleAcme.ID, Size: n, Head: n, CheckedAt: exampleAt(0), VerifierKey: "svc.example.com+5f2a9c01+AbCd",
		Checkpoint: "svc.example.com/" + exampleAcme.ID.String() +
			"\n3\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— svc.example.com Az3grl…\n",
	})
}
