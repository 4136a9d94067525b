package farm

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/farm/certificate"
	"svc/farm/dispatch"
	"svc/farm/wire"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
)

// registrationLimits are the limits of all four routes, whose bodies are small.
var registrationLimits = middleware.Limits{Body: 64 << 10}

func (s *Server) registrationRoutes() []openapi.Mounted {
	certified := append(commonFaults(), ErrCertificateRequired, errRunnerSuspended, errRunnerRevoked, errRunnerRetired, errWorkspaceGone)
	posted := []*fault.Fault{reply.TooLarge(registrationLimits.Body), openapi.ErrUnsupportedMedia, commands.ErrOutcomeUnknown}
	return []openapi.Mounted{
		{Operation: openapi.Operation{
			Method: "POST", Path: prefix + "/registrations", Limits: registrationLimits, Guard: s.admitUnregistered,
			ID: "registerRunner", Tag: "Build farm", Summary: "Become a runner", Status: http.StatusCreated,
			Description: "A machine shows the token that a person minted, and a request for a " +
				"certificate (CSR, in PEM) with a key of its own: Ed25519, " +
				"ECDSA P-256 or P-384, or RSA of 2048 to 4096 bits. Of the request only the key counts. The token enrolls one machine, or as " +
				"many as the person chose; the same key may ask again until the token expires and gets the same answer. " +
				"Of requests that make no machine a runner, an address may send 10 a minute, and 10 a minute may show the same token.\n\n" +
				"For: whoever has the token.",
			Faults:   append(append(commonFaults(), posted...), farm.ErrEnrollmentInvalid, farm.ErrEnrollmentUsed),
			Security: []map[string][]string{{}}, // the token is in the body
			RequestExample: map[string]any{
				"token": "tok_enr_…", "csr": examplePEM("CERTIFICATE REQUEST"), "name": "builder-1", "labels": []string{"disk=ssd"}, "capacity": 2,
				"agent": map[string]any{"version": "0.4.0", "os": "linux", "arch": "amd64", "sandboxes": []string{"none", "bubblewrap"}},
			},
			AnswerExample: exampleRegistration,
		}, Handler: openapi.Handle(s.register)},
		{Operation: openapi.Operation{
			Method: "POST", Path: prefix + "/registrations/renew", Limits: registrationLimits, Guard: s.Admit(registrationLimits.Body),
			ID: "renewRunnerCertificate", Tag: "Build farm", Summary: "Renew a certificate",
			Description: "Issues another certificate, preferably for a new key. The certificate that the request shows stays valid " +
				"until the new one is first used; if it is used after that, somebody has a copy of its key, and the runner is suspended. " +
				"Renew from `renewAfter` on. 429 `renewal_too_early` before a third of the lifetime has passed, and within an hour of a " +
				"renewal whose certificate was not used. Repeating a request with the same key returns the same certificate. " +
				"A certificate of a replaced authority can be renewed at any time.\n\n" + forRunners,
			Faults:         append(append([]*fault.Fault{farm.ErrSerialUnknown, farm.ErrRenewalEarly}, certified...), posted...),
			Security:       certificateSecurity,
			RequestExample: map[string]any{"csr": examplePEM("CERTIFICATE REQUEST")}, AnswerExample: exampleRegistration,
		}, Handler: openapi.Handle(s.renew)},
		{Operation: openapi.Operation{
			Method: "GET", Path: prefix + "/registrations/self", Limits: registrationLimits, Guard: s.Admit(registrationLimits.Body),
			ID: "getOwnRegistration", Tag: "Build farm", Summary: "Get the runner's own registration",
			Description: "What the service knows of the runner whose certificate is shown, for the agent's diagnostics.\n\n" + forRunners,
			Faults:      certified, Security: certificateSecurity,
			AnswerExample: exampleSelf,
		}, Handler: openapi.Handle(s.self)},
		{Operation: openapi.Operation{
			Method: "DELETE", Path: prefix + "/registrations/self", Limits: registrationLimits, Guard: s.Admit(registrationLimits.Body),
			ID: "deregisterRunner", Tag: "Build farm", Summary: "Stop being a runner", Status: http.StatusNoContent,
			Description: "Revokes the runner whose certificate is shown, as `svc-runner uninstall` does. Its certificates are refused " +
				"from then on, and jobs that it holds are given to others.\n\n" + forRunners,
			Faults: append([]*fault.Fault{commands.ErrOutcomeUnknown}, certified...), Security: certificateSecurity,
		}, Handler: openapi.Handle(s.deregister)},
	}
}

const forRunners = "For: a runner, by its client certificate, through the farm's gateway."

// certificateSecurity names the client certificate in the document.
var certificateSecurity = []map[string][]string{{"runnerCertificate": {}}}

// commonFaults returns the faults of every route.
func commonFaults() []*fault.Fault {
	return []*fault.Fault{
		farm.ErrFarmOff, fault.ErrValidation, limit.ErrLimited, fault.ErrInternal, fault.ErrUnavailable, fault.ErrBusy,
		ErrAuthorityUnavailable,
	}
}

// admitUnregistered is the guard of registration, where the machine has no certificate yet.
func (s *Server) admitUnregistered(w http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
	if err := s.checkRequest(r, registrationLimits.Body); err != nil {
		return nil, nil, err
	}
	if err := s.EnrollmentLimit.Allow(w.Header(), limit.Address(r)); err != nil {
		return nil, nil, err
	}
	anybody := &Runner{
		Runner:  dispatch.Runner{Envelope: envelopeOf(r, events.Actor{Type: events.BySystem, Name: "farm"})},
		address: limit.Address(r),
	}
	return context.WithValue(r.Context(), runnerKey{}, anybody), func() {}, nil
}

type agent struct {
	Version   string   `json:"version" maxLength:"63" example:"0.4.0"`
	OS        string   `json:"os" maxLength:"63" example:"linux"`
	Arch      string   `json:"arch" maxLength:"63" example:"amd64"`
	Protocols []string `json:"protocols,omitempty" maxItems:"8" nullable:"false" doc:"Of its connection, such as svc-farm.v1."`
	Sandboxes []string `json:"sandboxes,omitempty" maxItems:"8" nullable:"false" doc:"Kinds of sandboxes that it offers."`
}

type registrationRequest struct {
	Body struct {
		Token    string   `json:"token" maxLength:"100" doc:"What the person was shown."`
		CSR      string   `json:"csr" maxLength:"16384" doc:"PKCS #10, in PEM."`
		Name     string   `json:"name,omitempty" maxLength:"63" doc:"Of the runner, unless the person gave one. Capitals become small letters."`
		Agent    agent    `json:"agent"`
		Labels   []string `json:"labels,omitempty" maxItems:"32" nullable:"false" doc:"key=value, of the machine: jobs require them as machine:key=value."`
		Capacity int      `json:"capacity,omitempty" minimum:"1" maximum:"64" doc:"Jobs at once. Defaults to 1. No more than the person allowed count."`
	}
}

type registration struct {
	RunnerID            string            `json:"runnerId" format:"uuid"`
	WorkspaceID         string            `json:"workspaceId" format:"uuid"`
	Name                string            `json:"name" example:"builder-1"`
	Certificate         string            `json:"certificate" doc:"PEM."`
	CACertificate       string            `json:"caCertificate" doc:"Of the workspace's authority, in PEM."`
	Serial              string            `json:"serial" doc:"Hex." example:"4f8c1d04b7a9e35066d1f2c3a4b59687"`
	NotBefore           openapi.Timestamp `json:"notBefore"`
	NotAfter            openapi.Timestamp `json:"notAfter"`
	RenewAfter          openapi.Timestamp `json:"renewAfter" doc:"When to ask for the next one."`
	AgentURL            string            `json:"agentUrl" doc:"Where to connect." example:"wss://farm.example/api/v1/farm/agent"`
	HeartbeatSeconds    int               `json:"heartbeatSeconds" example:"10"`
	ArtifactMaxJobBytes int64             `json:"artifactMaxJobBytes" example:"268435456"`
	ReleaseKeys         []string          `json:"releaseKeys" nullable:"false" doc:"That releases of the agent are signed with."`
}

type registrationAnswer struct {
	CacheControl string `header:"Cache-Control"`
	Position     int64  `header:"X-Svc-Position" doc:"The sequence number that the workspace's log reached by this request."`
	Body         registration
}

func (s *Server) register(ctx context.Context, in *registrationRequest) (*registrationAnswer, error) {
	token, ok := bearer.ParseEnrollmentToken(in.Body.Token)
	if !ok {
		return nil, farm.ErrEnrollmentInvalid
	}
	workspace, enrollment, err := s.Commands.Enrollment(ctx, token)
	if err != nil {
		return nil, err
	}
	// Not for all tokens together, or callers from many addresses could stop everybody's registrations.
	if err := s.TokenEnrollmentLimit.Allow(http.Header{}, enrollment.String()); err != nil {
		return nil, err
	}
	request, err := readRequest(in.Body.CSR)
	if err != nil {
		return nil, err
	}
	a, err := s.authority(ctx, workspace)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	b := in.Body
	done, err := s.Commands.RegisterRunner(ctx, commands.RegisterRunner{
		Meta: RunnerOf(ctx).Meta(), Token: token, Authority: authorityEvent(a), Runner: events.NewID(now),
		Machine: farm.Machine{Name: b.Name, Key: request.Hash, Hello: farm.Hello{
			Labels: b.Labels, Capacity: cmp.Or(b.Capacity, 1),
			Agent: events.Agent{Version: b.Agent.Version, OS: b.Agent.OS, Arch: b.Agent.Arch, Sandboxes: b.Agent.Sandboxes},
		}},
		Certificate: certificate.NewLeaf(a.ID, request.Hash, now),
	})
	if err != nil {
		return nil, err
	}
	if done.New {
		// Enrollments bound how many machines become runners. Requests are counted before anything is read, so that
		// attempts cause little work.
		s.EnrollmentLimit.Return(RunnerOf(ctx).address)
		s.TokenEnrollmentLimit.Return(enrollment.String())
	}
	return s.certificateAnswer(a, workspace, done.Runner, done.Name, done.Certificate, request, done.Position)
}

// readRequest parses a CSR, and returns a fault about the field if no certificate can be issued for
// it.
func readRequest(text string) (certificate.Request, error) {
	r, err := certificate.ReadRequest(text)
	switch {
	case errors.Is(err, certificate.ErrKey), errors.Is(err, certificate.ErrSignature):
		return r, fault.Field("csr", "%s", err)
	case err != nil:
		return r, fault.Field("csr", "must be a certificate request in PEM")
	}
	return r, nil
}

type renewal struct {
	Body struct {
		CSR string `json:"csr" maxLength:"16384" doc:"PKCS #10, in PEM."`
	}
}

func (s *Server) renew(ctx context.Context, in *renewal) (*registrationAnswer, error) {
	c := RunnerOf(ctx)
	if err := s.EnrollmentLimit.Allow(http.Header{}, c.ID.String()); err != nil {
		return nil, err
	}
	request, err := readRequest(in.Body.CSR)
	if err != nil {
		return nil, err
	}
	a, err := s.authority(ctx, c.Workspace)
	if err != nil {
		return nil, err
	}
	done, renewed, err := s.Commands.RenewCertificate(ctx, commands.RenewCertificate{
		Meta: c.Meta(), Runner: c.ID, Authority: authorityEvent(a), Shown: c.Serial,
		Certificate: certificate.NewLeaf(a.ID, request.Hash, s.Now()),
	})
	if err != nil {
		return nil, err
	}
	return s.certificateAnswer(a, c.Workspace, c.ID, c.Name, renewed, request, done.Position)
}

// certificateAnswer issues a certificate and returns the answer with it.
func (s *Server) certificateAnswer(
	a *certificate.Authority, workspace, runner events.ID, name string, c events.Certificate, r certificate.Request, position int64,
) (*registrationAnswer, error) {
	host, agent := "farm", ""
	if s.PublicURL != nil {
		host, agent = s.PublicURL.Hostname(), "wss://"+s.PublicURL.Host+prefix+"/agent"
	}
	text, err := a.Issue(host, workspace, runner, c, r)
	if err != nil {
		return nil, err
	}
	return &registrationAnswer{CacheControl: "no-store", Position: position, Body: registration{
		RunnerID: runner.String(), WorkspaceID: workspace.String(), Name: name,
		Certificate: text, CACertificate: a.PEM(), Serial: c.Serial,
		NotBefore: openapi.FormatTime(c.NotBefore), NotAfter: openapi.FormatTime(c.NotAfter),
		RenewAfter: openapi.FormatTime(certificate.RenewAfter(c)),
		AgentURL:   agent, HeartbeatSeconds: int(wire.HeartbeatEvery / time.Second), ArtifactMaxJobBytes: s.ArtifactMaxJobBytes,
		ReleaseKeys: s.releaseKeys(),
	}}, nil
}

func (s *Server) releaseKeys() []string {
	if s.ReleaseKeys == nil {
		return []string{}
	}
	return append([]string{}, s.ReleaseKeys()...)
}

type selfAnswer struct{ Body self }

type self struct {
	RunnerID    string             `json:"runnerId" format:"uuid"`
	WorkspaceID string             `json:"workspaceId" format:"uuid"`
	Name        string             `json:"name" example:"builder-1"`
	State       events.RunnerState `json:"state" enum:"enrolled,online,offline,draining"`
	Serial      string             `json:"serial" doc:"Of the certificate that was shown."`
	NotAfter    openapi.Timestamp  `json:"notAfter" doc:"Of that certificate."`
	ServerTime  openapi.Timestamp  `json:"serverTime"`
}

func (s *Server) self(ctx context.Context, _ *struct{}) (*selfAnswer, error) {
	c := RunnerOf(ctx)
	return &selfAnswer{Body: self{
		RunnerID: c.ID.String(), WorkspaceID: c.Workspace.String(), Name: c.Name, State: c.State,
		Serial: c.Serial, NotAfter: openapi.FormatTime(c.NotAfter), ServerTime: openapi.FormatTime(s.Now()),
	}}, nil
}

type deregistered struct {
	Position int64 `header:"X-Svc-Position" doc:"The sequence number that the workspace's log reached by this request."`
}

func (s *Server) deregister(ctx context.Context, _ *struct{}) (*deregistered, error) {
	c := RunnerOf(ctx)
	done, err := s.Commands.RevokeRunner(ctx, commands.RevokeRunner{Meta: c.Meta(), Runner: c.ID, Note: "svc-runner was uninstalled."})
	if err != nil {
		return nil, err
	}
	return &deregistered{done.Position}, nil
}
