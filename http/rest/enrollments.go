package rest

import (
	"context"
	"net/http"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/projections"
)

const aboutFarm = "Jobs, and the machines that run them. A machine becomes a runner by an enrolment: a token that a person mints, " +
	"and that is used once."

func (s *Server) enrollmentRoutes() section {
	withdrawn := exampleEnrollment
	withdrawn.Status = projections.EnrollmentWithdrawn
	return section{tag: "Build farm", routes: []route{
		query(s.listEnrollments, route{
			method: "GET", path: "/farm/enrollments", guard: mayDo(events.ManageRunners), farm: true,
			id: "listEnrollments", summary: "List enrolments",
			text:     "The enrolments, the newest first. Of a token only the last four characters are shown.",
			answered: newList([]projections.Enrollment{exampleEnrollment}, 1, examplePage, newEnrollment),
		}),
		command((*newEnrollmentRequest).command, s.mintEnrollment, route{
			method: "POST", path: "/farm/enrollments", guard: mayDo(events.ManageRunners), farm: true,
			id: "mintEnrollment", summary: "Enrol a machine", status: http.StatusCreated,
			text: "Makes a token by which one machine becomes a runner, and the command to run there. The token is in this answer and can " +
				"never be read again. Labels that begin with `os=`, `arch=`, `runner=` or `sandbox=` the service sets by itself. A runner with " +
				"exclusive labels takes only jobs that ask for each of them. 409 `farm_not_ready` lists what is set and what is missing: variables, " +
				"and files of the folder of releases.",
			refuses:  []*fault.Fault{errFarmNotReady, errEnrollmentShown, commands.ErrKeyReused},
			sent:     object{"name": "builder-1", "labels": []string{"pool=default"}, "ttlSeconds": 900},
			answered: exampleMinted(),
		}),
		query(s.getEnrollment, route{
			method: "GET", path: "/farm/enrollments/{id}", guard: mayDo(events.ManageRunners), farm: true,
			id: "getEnrollment", summary: "Get an enrolment",
			text:     "What became of an enrolment: it is `pending`, `used` by a runner, `withdrawn`, or `expired`. Live updates tell of it too.",
			refuses:  []*fault.Fault{aggregates.ErrNoEnrollment},
			answered: newEnrollment(exampleEnrollment),
		}),
		command((*EnrollmentPath).withdraw, s.withdrawEnrollment, route{
			method: "POST", path: "/farm/enrollments/{id}/withdraw", guard: mayDo(events.ManageRunners), farm: true,
			id: "withdrawEnrollment", summary: "Withdraw an enrolment",
			text:     "Takes the token back, at once. 409 `enrollment_used` if a machine has become a runner by it: revoke the runner.",
			missing:  aggregates.ErrNoEnrollment,
			refuses:  []*fault.Fault{aggregates.ErrEnrollmentDone},
			answered: newEnrollment(withdrawn),
		}),
	}}
}

var (
	errFarmNotReady = fault.New(fault.Conflict, "farm_not_ready",
		"No machine can be enrolled yet: details.missing names the variables that an operator has to set, or what they lead to.").
		With("set", []string{"SVC_FARM_PUBLIC_URL", "SVC_FARM_CLIENT_CERT_HEADER"}).With("missing", []string{"SVC_FARM_RELEASES_DIR"})
	errEnrollmentShown = fault.New(fault.Conflict, "token_already_shown",
		"This was done before, and its token was shown then. Withdraw the enrolment and mint another one.")
)

type enrollment struct {
	ID              string            `json:"id" format:"uuid"`
	Name            string            `json:"name" doc:"Of the runner; empty until the machine has said it, if nobody gave one." example:"builder-1"`
	Status          string            `json:"status" enum:"pending,used,withdrawn,expired"`
	Labels          []string          `json:"labels" nullable:"false" example:"[\"pool=default\"]"`
	ExclusiveLabels []string          `json:"exclusiveLabels" nullable:"false" example:"[]"`
	CapacityLimit   int               `json:"capacityLimit" doc:"Jobs that the runner takes at once, at most." example:"64"`
	Ephemeral       bool              `json:"ephemeral" doc:"The runner takes one job and retires."`
	TokenTail       string            `json:"tokenTail" example:"Qm4Z"`
	Runner          *enrollmentRunner `json:"runner,omitempty" doc:"What the machine became: there once it has used the token."`
	Refusals        int               `json:"refusals" doc:"Times that another machine showed the token, ten at most."`
	MintedBy        string            `json:"mintedBy" example:"ada@acme.example"`
	MintedAt        timestamp         `json:"mintedAt"`
	ExpiresAt       timestamp         `json:"expiresAt"`
	UsedAt          *timestamp        `json:"usedAt" nullable:"true"`
}

type enrollmentRunner struct {
	ID    string             `json:"id" format:"uuid"`
	State events.RunnerState `json:"state" enum:"enrolled,online,offline,draining,suspended,revoked,retired"`
}

func newEnrollment(n projections.Enrollment) enrollment {
	out := enrollment{
		ID: n.ID.String(), Name: n.Name, Status: n.Status, Labels: n.Labels, ExclusiveLabels: n.ExclusiveLabels,
		CapacityLimit: n.CapacityLimit, Ephemeral: n.Jobs > 0, TokenTail: n.Tail, Refusals: n.Refusals,
		MintedBy: n.MintedBy, MintedAt: at(n.MintedAt), ExpiresAt: at(n.ExpiresAt), UsedAt: optional(n.UsedAt),
	}
	if n.Runner != nil && n.RunnerState != nil {
		out.Runner = &enrollmentRunner{n.Runner.String(), *n.RunnerState}
	}
	return out
}

type enrollmentsQuery struct{ Paging }

type enrollmentsAnswer struct{ Body List[enrollment] }

func (s *Server) listEnrollments(ctx context.Context, in *enrollmentsQuery) (*enrollmentsAnswer, error) {
	found, total, err := s.views.Enrollments.Page(ctx, callerOf(ctx).workspace, s.now(), in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	return &enrollmentsAnswer{newList(found, total, in.Paging, newEnrollment)}, nil
}

// An EnrollmentPath names an enrolment.
type EnrollmentPath struct {
	ID string `path:"id" maxLength:"64" doc:"The enrolment's id."`
}

type enrollmentAnswer struct {
	Position
	Body enrollment
}

func (s *Server) getEnrollment(ctx context.Context, in *EnrollmentPath) (*struct{ Body enrollment }, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoEnrollment
	}
	n, err := s.enrollment(ctx, id)
	return &struct{ Body enrollment }{n}, err
}

func (s *Server) enrollment(ctx context.Context, id events.ID) (enrollment, error) {
	n, ok, err := s.views.Enrollments.Get(ctx, callerOf(ctx).workspace, id, s.now())
	switch {
	case err != nil:
		return enrollment{}, err
	case !ok:
		return enrollment{}, aggregates.ErrNoEnrollment
	}
	return newEnrollment(n), nil
}

type newEnrollmentRequest struct {
	Once
	Body struct {
		Name            string   `json:"name,omitempty" maxLength:"63" doc:"Of the runner: lower-case letters, digits, dots and hyphens. Without one the machine says it." example:"builder-1"`
		Labels          []string `json:"labels,omitempty" maxItems:"32" nullable:"false" doc:"key=value; what jobs may ask for." example:"[\"pool=default\"]"`
		ExclusiveLabels []string `json:"exclusiveLabels,omitempty" maxItems:"32" nullable:"false" doc:"Labels that a job has to ask for to be run there." example:"[]"`
		CapacityLimit   int      `json:"capacityLimit,omitempty" minimum:"1" maximum:"64" default:"64" doc:"Jobs that the runner takes at once, at most."`
		Ephemeral       bool     `json:"ephemeral,omitempty" doc:"The runner takes one job and retires."`
		TTLSeconds      int      `json:"ttlSeconds,omitempty" minimum:"60" maximum:"3600" default:"900" doc:"How long the token counts."`
	}
}

func (in *newEnrollmentRequest) command(c *caller, _ events.ID) (commands.MintEnrollment, error) {
	b := in.Body
	mint := commands.MintEnrollment{
		Meta: c.metaOnce(in.Once), Name: b.Name, Labels: b.Labels, ExclusiveLabels: b.ExclusiveLabels,
		CapacityLimit: b.CapacityLimit, Lasts: time.Duration(b.TTLSeconds) * time.Second,
	}
	if b.Ephemeral {
		mint.Jobs = 1
	}
	return mint, nil
}

// A mintedAnswer is the one answer in which an enrolment's token appears.
type mintedAnswer struct {
	Position
	CacheControl string `header:"Cache-Control"`
	Body         minted
}

type minted struct {
	EnrollmentID     string    `json:"enrollmentId" format:"uuid"`
	ExpiresAt        timestamp `json:"expiresAt"`
	Token            string    `json:"token" doc:"The whole token. It is shown this once." example:"tok_enr_…"`
	Command          string    `json:"command" doc:"To run on the machine." example:"curl -fsSL …"`
	CommandPrivateCA string    `json:"commandPrivateCa" doc:"The same, where the gateway's certificate is of a CA of one's own, whose certificate is in ca.pem there." example:"curl -fsSL --cacert ca.pem …"`
}

func (s *Server) mintEnrollment(ctx context.Context, _ *newEnrollmentRequest, mint commands.MintEnrollment) (*mintedAnswer, error) {
	set, missing := s.farm.Ready()
	if len(missing) > 0 {
		return nil, errFarmNotReady.With("set", set).With("missing", missing)
	}
	var err error
	if mint.Authority, err = s.farm.Authority(ctx, mint.Workspace); err != nil {
		return nil, err
	}
	mint.Enrollment, mint.Token = events.NewID(s.now()), commands.NewEnrollmentToken()
	done, err := s.commands.MintEnrollment(ctx, mint)
	switch {
	case err != nil:
		return nil, err
	case done.Replayed:
		return nil, errEnrollmentShown
	}
	n, err := s.enrollment(ctx, mint.Enrollment)
	if err != nil {
		return nil, err
	}
	return &mintedAnswer{Position{done.Position}, "no-store", newMinted(s.farm.PublicURL, n, mint.Token.Reveal())}, nil
}

func newMinted(gateway string, n enrollment, token string) minted {
	command := func(curl, install string) string {
		return "curl -fsSL --proto '=https' --tlsv1.2 " + curl + gateway + "/install.sh | sudo sh -s -- --url " + gateway + install +
			" --token " + token
	}
	return minted{
		EnrollmentID: n.ID, ExpiresAt: n.ExpiresAt, Token: token,
		Command: command("", ""), CommandPrivateCA: command("--cacert ca.pem ", " --server-ca ca.pem"),
	}
}

func (in *EnrollmentPath) withdraw(c *caller, id events.ID) (commands.WithdrawEnrollment, error) {
	return commands.WithdrawEnrollment{Meta: c.meta(), Enrollment: id}, nil
}

func (s *Server) withdrawEnrollment(
	ctx context.Context, _ *EnrollmentPath, withdraw commands.WithdrawEnrollment,
) (*enrollmentAnswer, error) {
	done, err := s.commands.WithdrawEnrollment(ctx, withdraw)
	if err != nil {
		return nil, err
	}
	n, err := s.enrollment(ctx, withdraw.Enrollment)
	return &enrollmentAnswer{Position{done.Position}, n}, err
}

var exampleEnrollment = projections.Enrollment{
	ID: exampleNo(21), Name: "builder-1", Status: projections.EnrollmentPending, Labels: []string{"pool=default"}, ExclusiveLabels: []string{},
	CapacityLimit: 64, Tail: "Qm4Z", MintedBy: exampleAda.Name, MintedAt: exampleAt(0), ExpiresAt: exampleAt(-15),
}

func exampleMinted() minted {
	return newMinted("https://farm.example", newEnrollment(exampleEnrollment), "tok_enr_…"+exampleEnrollment.Tail)
}
