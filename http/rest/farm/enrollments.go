package farm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"time"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
)

const aboutFarm = "Jobs and the runners that execute them. A machine becomes a runner with an enrollment: a token that a person creates " +
	"and that enrolls one machine, or as many as the person says."

func (s *Server) enrollmentRoutes() door.Section {
	withdrawn := exampleEnrollment
	withdrawn.Status = farmviews.EnrollmentWithdrawn
	return door.Section{Tag: "Build farm", About: aboutFarm, Routes: []door.Route{
		door.Query(s.listEnrollments, door.Route{
			Method: "GET", Path: "/farm/enrollments", Guard: door.MayDo(events.ManageRunners), Farm: true,
			ID: "listEnrollments", Summary: "List enrollments",
			Text:          "Lists enrollments, newest first. Only the last four characters of a token are shown.",
			AnswerExample: schema.NewList([]farmviews.Enrollment{exampleEnrollment}, 1, schema.ExamplePage, newEnrollment),
		}),
		door.Command((*newEnrollmentRequest).toCommand, s.mintEnrollment, door.Route{
			Method: "POST", Path: "/farm/enrollments", Guard: door.MayDo(events.ManageRunners), Farm: true,
			ID: "mintEnrollment", Summary: "Create an enrollment", Status: http.StatusCreated,
			Text: "Creates a token with which one machine, or as many as `uses` says, can become runners, and the command to run on each. " +
				"For machines that come and go, give several uses and a long `ttlSeconds`, and keep the token like a password: whoever has it " +
				"can add machines that get jobs. The token is only in this response and cannot be read again. Labels that " +
				"begin with `os=`, `arch=`, `runner=` or `sandbox=` are set by the service; what the machine " +
				"says of itself begins with `machine:`, its name too if the enrollment gave none (`machine:runner=`). A " +
				"runner with exclusive labels takes only jobs that require all of them. 409 `farm_not_ready` lists the variables and release " +
				"files that are set and missing. " + door.Daily("create 500 enrollments"),
			Refuses:        []*fault.Fault{errFarmNotReady, errEnrollmentShown, commands.ErrKeyReused},
			RequestExample: schema.Object{"name": "builder-1", "labels": []string{"pool=default"}, "ttlSeconds": 900},
			AnswerExample:  exampleMinted(),
		}),
		door.Query(s.getEnrollment, door.Route{
			Method: "GET", Path: "/farm/enrollments/{id}", Guard: door.MayDo(events.ManageRunners), Farm: true,
			ID: "getEnrollment", Summary: "Get an enrollment",
			Text: "Returns an enrollment: `pending` while it can enroll a machine, `used` by as many as it is for, `withdrawn` or `expired`. " +
				"Live updates report changes.",
			Refuses:       []*fault.Fault{farm.ErrNoEnrollment},
			AnswerExample: newEnrollment(exampleEnrollment),
		}),
		door.Command((*EnrollmentPath).withdraw, s.withdrawEnrollment, door.Route{
			Method: "POST", Path: "/farm/enrollments/{id}/withdraw", Guard: door.MayDo(events.ManageRunners), Farm: true,
			ID: "withdrawEnrollment", Summary: "Withdraw an enrollment",
			Text: "Invalidates the token at once. Runners that it made remain. 409 `enrollment_used` if it was used as often as it may " +
				"be; revoke the runners instead.",
			Missing:       farm.ErrNoEnrollment,
			Refuses:       []*fault.Fault{farm.ErrEnrollmentDone},
			AnswerExample: newEnrollment(withdrawn),
		}),
	}}
}

var (
	errFarmNotReady = fault.New(fault.Conflict, "farm_not_ready",
		"Machines cannot be enrolled yet: an operator has to provide what details.missing lists.").
		With("set", []string{"SVC_FARM_PUBLIC_URL", "SVC_FARM_CLIENT_CERT_HEADER"}).With("missing", []string{"SVC_FARM_RELEASES_DIR"})
	errEnrollmentShown = fault.New(fault.Conflict, "token_already_shown",
		"This request was processed before and its token was shown then. Withdraw the enrollment and create another.")
)

type enrollment struct {
	ID              string             `json:"id" format:"uuid"`
	Name            string             `json:"name" doc:"The runner's name. If none was given, empty until the machine reports its own; empty if it is for several." example:"builder-1"`
	Status          string             `json:"status" enum:"pending,used,withdrawn,expired"`
	Labels          []string           `json:"labels" nullable:"false" example:"[\"pool=default\"]"`
	ExclusiveLabels []string           `json:"exclusiveLabels" nullable:"false" example:"[]"`
	CapacityLimit   int                `json:"capacityLimit" doc:"Maximum number of jobs that the runner runs at once." example:"64"`
	Ephemeral       bool               `json:"ephemeral" doc:"Whether the runner retires after one job."`
	Uses            int                `json:"uses" doc:"Number of machines that it is for." example:"1"`
	UsesLeft        int                `json:"usesLeft" doc:"Number of machines that can still use it, unless it was withdrawn or has expired." example:"1"`
	TokenTail       string             `json:"tokenTail" example:"Qm4Z"`
	Runner          *enrollmentRunner  `json:"runner,omitempty" doc:"The runner that the machine became, the last one of several. Absent until the token is used."`
	Refusals        int                `json:"refusals" doc:"Number of times another machine presented the token, at most ten."`
	MintedBy        string             `json:"mintedBy" example:"ada@acme.example"`
	MinterName      string             `json:"mintedByName,omitempty" doc:"Name of the person who has this address now. Absent for other actors." example:"Ada Lind"`
	MintedAt        openapi.Timestamp  `json:"mintedAt"`
	ExpiresAt       openapi.Timestamp  `json:"expiresAt"`
	UsedAt          *openapi.Timestamp `json:"usedAt" nullable:"true" doc:"When it was last used."`
}

type enrollmentRunner struct {
	ID    string             `json:"id" format:"uuid"`
	State events.RunnerState `json:"state" enum:"enrolled,online,offline,draining,suspended,revoked,retired"`
}

func newEnrollment(n farmviews.Enrollment) enrollment {
	out := enrollment{
		ID: n.ID.String(), Name: n.Name, Status: n.Status, Labels: n.Labels, ExclusiveLabels: n.ExclusiveLabels,
		CapacityLimit: n.CapacityLimit, Ephemeral: n.Jobs > 0, Uses: n.Uses, UsesLeft: max(n.Uses-n.Used, 0), TokenTail: n.Tail,
		Refusals: n.Refusals,
		MintedBy: n.MintedBy, MintedAt: openapi.FormatTime(n.MintedAt), ExpiresAt: openapi.FormatTime(n.ExpiresAt),
		UsedAt: openapi.FormatOptionalTime(n.UsedAt),
	}
	if n.Runner != nil && n.RunnerState != nil {
		out.Runner = &enrollmentRunner{n.Runner.String(), *n.RunnerState}
	}
	return out
}

func (n *enrollment) names() []door.NamePlace {
	return []door.NamePlace{{Address: n.MintedBy, Name: &n.MinterName}}
}

// enrollmentNow returns newEnrollment of an enrollment with the state of its runner at this moment.
func (s *Server) enrollmentNow(n farmviews.Enrollment) enrollment {
	if n.RunnerState != nil && n.UsedAt != nil {
		state := farmviews.RunnerStateAt(*n.RunnerState, *n.UsedAt, s.Now())
		n.RunnerState = &state
	}
	return newEnrollment(n)
}

type enrollmentsQuery struct {
	schema.Paging
	Status string `query:"status" enum:"pending" doc:"pending: enrollments whose token can still be used, the last to expire first. By default all."`
}

type enrollmentsAnswer struct{ Body schema.List[enrollment] }

func (s *Server) listEnrollments(ctx context.Context, in *enrollmentsQuery) (*enrollmentsAnswer, error) {
	page := s.Enrollments.Page
	if in.Status != "" {
		page = s.Enrollments.Pending
	}
	found, total, err := page(ctx, door.CallerOf(ctx).Workspace, s.Now(), in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	out := &enrollmentsAnswer{schema.NewList(found, total, in.Paging, s.enrollmentNow)}
	return out, door.AddNames(ctx, s.Door, out.Body.Items, (*enrollment).names)
}

// An EnrollmentPath names an enrollment.
type EnrollmentPath struct {
	ID string `path:"id" maxLength:"64" doc:"The enrollment's id."`
}

type enrollmentAnswer struct {
	schema.Position
	Body enrollment
}

func (s *Server) getEnrollment(ctx context.Context, in *EnrollmentPath) (*door.BodyAnswer[enrollment], error) {
	return door.ShowInPath(ctx, in.ID, farm.ErrNoEnrollment, s.enrollment)
}

func (s *Server) enrollment(ctx context.Context, id events.ID) (enrollment, error) {
	n, ok, err := s.Enrollments.Get(ctx, door.CallerOf(ctx).Workspace, id, s.Now())
	if err := door.CheckFound(ok, err, farm.ErrNoEnrollment); err != nil {
		return enrollment{}, err
	}
	return door.WithNames(ctx, s.Door, s.enrollmentNow(n), (*enrollment).names)
}

type newEnrollmentRequest struct {
	schema.Idempotency
	Body struct {
		Name            string   `json:"name,omitempty" maxLength:"63" doc:"The runner's name: lower-case letters, digits, dots and hyphens. By default the machine reports its own, as several always do." example:"builder-1"`
		Labels          []string `json:"labels,omitempty" maxItems:"32" nullable:"false" doc:"Labels of the form key=value that jobs can require." example:"[\"pool=default\"]"`
		ExclusiveLabels []string `json:"exclusiveLabels,omitempty" maxItems:"32" nullable:"false" doc:"Labels that a job must require to run on this runner." example:"[]"`
		CapacityLimit   int      `json:"capacityLimit,omitempty" minimum:"1" maximum:"64" doc:"Maximum number of jobs that the runner runs at once. Defaults to 64."`
		Ephemeral       bool     `json:"ephemeral,omitempty" doc:"Whether each runner retires after one job."`
		Uses            int      `json:"uses,omitempty" minimum:"1" maximum:"1000" doc:"Number of machines that can become runners with the token. Defaults to 1." example:"20"`
		TTLSeconds      int      `json:"ttlSeconds,omitempty" minimum:"60" maximum:"7776000" doc:"Lifetime of the token in seconds. Defaults to 900. At most an hour, or 90 days with several uses."`
	}
}

func (in *newEnrollmentRequest) toCommand(c *door.Caller, _ events.ID) (commands.MintEnrollment, error) {
	b := in.Body
	mint := commands.MintEnrollment{
		Meta: c.MetaWithKey(in.Idempotency), Name: b.Name, Labels: b.Labels, ExclusiveLabels: b.ExclusiveLabels,
		CapacityLimit: cmp.Or(b.CapacityLimit, 64), Lasts: time.Duration(cmp.Or(b.TTLSeconds, 900)) * time.Second, Uses: b.Uses,
	}
	if b.Ephemeral {
		mint.Jobs = 1
	}
	return mint, nil
}

// A mintedAnswer is the only answer that contains an enrollment's token.
type mintedAnswer struct {
	schema.Position
	CacheControl string `header:"Cache-Control"`
	Body         minted
}

type minted struct {
	EnrollmentID     string            `json:"enrollmentId" format:"uuid"`
	ExpiresAt        openapi.Timestamp `json:"expiresAt"`
	Token            string            `json:"token" doc:"The full token. It is shown only once." example:"tok_enr_…"`
	Command          string            `json:"command" doc:"The command to run on the machine." example:"curl -fsSL …"`
	CommandPrivateCA string            `json:"commandPrivateCa" doc:"The command for a gateway whose certificate was issued by a private CA, with the CA's certificate in ca.pem on the machine." example:"curl -fsSL --cacert ca.pem …"`
	PrivateCA        *privateCA        `json:"privateCa,omitempty" doc:"The private CA that the gateway's certificate is known to be of. command then saves its certificate first, so that it works on any machine. Absent if the operator has named none."`
}

type privateCA struct {
	Certificate  string   `json:"certificate" doc:"The CA's certificate in PEM, or several." example:"-----BEGIN CERTIFICATE-----\n…"`
	Fingerprints []string `json:"fingerprints" nullable:"false" doc:"SHA-256 of each certificate, as openssl x509 -fingerprint shows it." example:"[\"0F:5A:…\"]"`
}

// newPrivateCA returns nil if there are no certificates.
func newPrivateCA(certificates []*x509.Certificate) *privateCA {
	if len(certificates) == 0 {
		return nil
	}
	ca := &privateCA{Fingerprints: []string{}}
	for _, c := range certificates {
		ca.Certificate += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
		sum := fmt.Sprintf("% X", sha256.Sum256(c.Raw))
		ca.Fingerprints = append(ca.Fingerprints, strings.ReplaceAll(sum, " ", ":"))
	}
	return ca
}

func (s *Server) mintEnrollment(ctx context.Context, _ *newEnrollmentRequest, mint commands.MintEnrollment) (*mintedAnswer, error) {
	set, missing := s.Ready()
	if len(missing) > 0 {
		return nil, errFarmNotReady.With("set", set).With("missing", missing)
	}
	var err error
	if mint.Authority, err = s.Authority(ctx, mint.Workspace); err != nil {
		return nil, err
	}
	mint.Enrollment, mint.Token = events.NewID(s.Now()), bearer.NewEnrollmentToken()
	done, err := s.Commands.MintEnrollment(ctx, mint)
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
	return &mintedAnswer{schema.Position{Position: done.Position}, "no-store", newMinted(s.Config, n, mint.Token.Reveal())}, nil
}

// savedCA is the file into which the command saves the certificate of the gateway's private CA.
const savedCA = "svc-farm-ca.pem"

func newMinted(farm Config, n enrollment, token string) minted {
	command := func(curl, install string) string {
		return "curl -fsSL --proto '=https' --tlsv1.2 " + curl + farm.PublicURL + "/install.sh | sudo sh -s -- --url " + farm.PublicURL +
			install + " --token " + token
	}
	trusting := func(file string) string { return command("--cacert "+file+" ", " --server-ca "+file) }
	out := minted{
		EnrollmentID: n.ID, ExpiresAt: n.ExpiresAt, Token: token,
		Command: command("", ""), CommandPrivateCA: trusting("ca.pem"), PrivateCA: newPrivateCA(farm.GatewayCA),
	}
	if out.PrivateCA != nil {
		out.Command = "printf %s '" + out.PrivateCA.Certificate + "' >" + savedCA + " && " + trusting(savedCA)
	}
	return out
}

func (in *EnrollmentPath) withdraw(c *door.Caller, id events.ID) (commands.WithdrawEnrollment, error) {
	return commands.WithdrawEnrollment{Meta: c.Meta(), Enrollment: id}, nil
}

func (s *Server) withdrawEnrollment(
	ctx context.Context, _ *EnrollmentPath, withdraw commands.WithdrawEnrollment,
) (*enrollmentAnswer, error) {
	done, err := s.Commands.WithdrawEnrollment(ctx, withdraw)
	if err != nil {
		return nil, err
	}
	n, err := s.enrollment(ctx, withdraw.Enrollment)
	return &enrollmentAnswer{schema.Position{Position: done.Position}, n}, err
}

var exampleEnrollment = farmviews.Enrollment{
	ID: schema.ExampleNo(21), Name: "builder-1", Status: farmviews.EnrollmentPending, Labels: []string{"pool=default"},
	ExclusiveLabels: []string{},
	CapacityLimit:   64, Tail: "Qm4Z", MintedBy: schema.ExampleAda.Name, MintedAt: schema.ExampleAt(0), ExpiresAt: schema.ExampleAt(-15),
	Uses: 1,
}

func exampleMinted() minted {
	return newMinted(Config{PublicURL: "https://farm.example"}, newEnrollment(exampleEnrollment), "tok_enr_…"+exampleEnrollment.Tail)
}
