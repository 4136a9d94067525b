package rest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humahttprouter"

	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/proof"
)

// A route is a row of the API: what is asked for, who may ask, which followed
// views are read (nil if only inline ones are), which command it asks for (nil if it
// only reads), and who answers. id is the key of its description.
type route struct {
	method, path string // the path is under /api/v1
	guard        guard
	views        []string
	intent       intent
	id           string
	serve        operation
}

// The followed views that routes read.
var (
	listed   = []string{"runs", "run_counts"}
	asked    = []string{"decisions", "runs"}
	seen     = []string{"runs", "decisions"}
	counted  = []string{"outcomes"}
	searched = []string{"audit"}
	proved   = []string{proof.View}
)

// routes is the whole API.
func (s *Server) routes() []route {
	return []route{
		{"GET", "/runs", readers, listed, nil, "listRuns", op(s.listRuns)},
		{"GET", "/runs/{id}", readers, listed, nil, "getRun", op(s.getRun)},

		{"POST", "/runs/{id}/cancel", administrators, nil, intends((*cancellation).command), "cancelRun", op(s.cancelRun)},
		{"POST", "/backlog/queue", queuers, nil, intends((*newIssue).command), "queueIssue", op(s.queueIssue)},

		{"GET", "/inbox", readers, asked, nil, "listInbox", op(s.listInbox)},
		{"POST", "/inbox/{id}/answer", people, nil, intends((*newAnswer).command), "answerDecision", op(s.answerDecision)}, // each kind has its own rule

		{"GET", "/insights", readers, counted, nil, "getInsights", op(s.getInsights)},
		{"GET", "/dashboard", readers, seen, nil, "getDashboard", op(s.getDashboard)},

		{"GET", "/events/stream", readers, nil, nil, "streamEvents", streaming()},

		{"GET", "/workspace", people, nil, nil, "getWorkspace", op(s.getWorkspace)},
		{"PATCH", "/workspace", owners, nil, intends((*workspaceChange).command), "renameWorkspace", op(s.renameWorkspace)},

		{"GET", "/members", people, nil, nil, "listMembers", op(s.listMembers)},
		{"PATCH", "/members/{id}", administrators, nil, intends((*memberChange).command), "updateMember", op(s.updateMember)},
		{"DELETE", "/members/{id}", people, nil, intends((*MemberPath).remove), "removeMember", op(s.removeMember)}, // everybody may leave

		{"GET", "/invitations", people, nil, nil, "listInvitations", op(s.listInvitations)},
		{"POST", "/invitations", administrators, nil, intends((*newInvitation).command), "sendInvitation", op(s.sendInvitation)},
		{"POST", "/invitations/{id}/resend", administrators, nil, intends((*InvitationPath).resend), "resendInvitation", op(s.resendInvitation)},
		{"DELETE", "/invitations/{id}", administrators, nil, intends((*InvitationPath).revoke), "revokeInvitation", op(s.revokeInvitation)},

		{"GET", "/service-accounts", administrators, nil, nil, "listServiceAccounts", op(s.listServiceAccounts)},
		{"POST", "/service-accounts", administrators, nil, intends((*newAccount).command), "createServiceAccount", op(s.createServiceAccount)},
		{"POST", "/service-accounts/{id}/rotate", administrators, nil, intends((*rotation).command), "rotateServiceAccount", op(s.rotateServiceAccount)},
		{"POST", "/service-accounts/{id}/revoke", administrators, nil, intends((*AccountPath).revoke), "revokeServiceAccount", op(s.revokeServiceAccount)},

		{"GET", "/audit", administrators, searched, nil, "listAudit", op(s.listAudit)},
		{"GET", "/audit/{id}", administrators, searched, nil, "getAuditRecord", op(s.getAuditRecord)},
		{"GET", "/audit/export", owners, searched, intends((*exportQuery).command), "exportAudit", exporting()},
		{"GET", "/audit/state", owners, nil, nil, "getAuditState", op(s.getAuditState)},
		{"GET", "/audit/replay", owners, nil, nil, "replayAudit", op(s.replayAudit)},
		{"GET", "/audit/verify", owners, proved, nil, "verifyAudit", long(verifyLimit, op(s.verifyAudit))},
	}
}

// An operation adds what answers a route to the API.
type operation func(s *Server, api huma.API, o huma.Operation)

// op makes an operation of a function from a request to an answer.
func op[I, O any](serve func(context.Context, *I) (*O, error)) operation {
	return func(s *Server, api huma.API, o huma.Operation) {
		huma.Register(api, o, func(ctx context.Context, in *I) (*O, error) {
			out, err := serve(ctx, in)
			if err != nil {
				return nil, s.refusal(ctx, err)
			}
			return out, nil
		})
	}
}

// long lets an operation take longer than others.
func long(limit time.Duration, o operation) operation {
	return func(s *Server, api huma.API, described huma.Operation) {
		described.Middlewares = append(described.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
			_, w, _ := humahttprouter.Unwrap(ctx)
			longer, done := middleware.Extend(ctx.Context(), w, limit)
			defer done()
			next(huma.WithContext(ctx, longer))
		})
		o(s, api, described)
	}
}

// mount adds every route to the API.
func (s *Server) mount(api huma.API) {
	for _, r := range s.routes() {
		d := descriptions[r.id]
		r.serve(s, api, huma.Operation{
			OperationID: r.id, Method: r.method, Path: prefix + r.path,
			Summary: d.summary, Description: d.text + "\n\nFor: " + r.guard.name + ".", Tags: []string{d.tag},
			DefaultStatus: d.status, Errors: r.statuses(), Security: r.security(),
			MaxBodyBytes: maxBody, BodyReadTimeout: -1, // the whole request has a limit
			Middlewares: huma.Middlewares{s.admit(r), s.checkQuery, s.refuseBody}, Responses: d.responses(), Parameters: r.headers(),
		})
	}
}

// refuseBody answers 422 to a body where none is wanted, as to any field that is
// not known; none, or {}, is what clients send that always send something.
func (s *Server) refuseBody(ctx huma.Context, next func(huma.Context)) {
	r, w, _ := humahttprouter.Unwrap(ctx)
	if ctx.Operation().RequestBody == nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
		text, err := io.ReadAll(io.LimitReader(r.Body, 64))
		if body := strings.TrimSpace(string(text)); err != nil || body != "" && body != "{}" {
			reply.Error(w, r, s.Log, fault.Field("body", "is not wanted here"))
			return
		}
	}
	next(ctx)
}

// headers describes what the guard reads of every request.
func (r route) headers() []*huma.Param {
	list := []*huma.Param{{
		Name: "X-Svc-Tenant", In: "header", Example: "acme",
		Description: "The workspace, by id or slug. For a person: by default the session's active one. A token has only its own, and naming another is answered like naming none.",
		Schema:      &huma.Schema{Type: huma.TypeString},
	}}
	if r.method == http.MethodGet {
		list = append(list, &huma.Param{
			Name: "X-Svc-Min-Position", In: "header", Example: 4182,
			Description: "The `X-Svc-Position` of an earlier answer: this one waits, five seconds at most, until it shows what that did.",
			Schema:      &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(float64)},
		})
	}
	return list
}

func (r route) security() []map[string][]string {
	if r.guard.scope == "" {
		return []map[string][]string{{"session": {}}}
	}
	return []map[string][]string{{"serviceToken": {}}, {"session": {}}}
}
