package farm

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/certificate"
	"svc/farm/dispatch"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/reply"
)

// Errors of admission. All invalid certificates get the same answer, so that nobody can probe them.
// A missing certificate, one that says itself that it has expired, a gateway that is not trusted, and the state of a
// known runner have answers of their own, to help its owner.
var (
	ErrCertificateRequired = fault.New(fault.Unauthenticated, "runner_certificate_required",
		"This route needs the client certificate of a runner, forwarded by the farm's gateway.").With("reason", "certificate_invalid")
	errNoCertificate   = ErrCertificateRequired.With("reason", "no_certificate")
	errExpired         = ErrCertificateRequired.With("reason", "certificate_expired")
	errGateway         = ErrCertificateRequired.With("reason", "gateway_not_trusted")
	errRunnerSuspended = fault.New(fault.Denied, "runner_suspended",
		"A certificate of this runner was used that had been replaced: somebody has a copy of its key. "+
			"Revoke the runner, then enroll the machine anew.")
	errRunnerRevoked = fault.New(fault.Denied, "runner_revoked", "This runner was revoked. Enroll the machine anew.")
	errWorkspaceGone = fault.New(fault.Denied, "workspace_deleted",
		"The workspace of this runner was deleted. Its Owners can restore it for 30 days.")
	errRunnerRetired = fault.New(fault.Denied, "runner_retired", "This runner has done the jobs that it was enrolled for.")
)

// A Runner is an authenticated runner that makes a request.
type Runner struct {
	dispatch.Runner
	State   events.RunnerState // at the time of the request
	Serial  string             // of the certificate
	Version string             // of the agent, as last reported
	address string             // key of the limit, of a machine that is no runner yet
}

type runnerKey struct{}

// RunnerOf returns the runner of a request that [Server.Admit] has admitted.
func RunnerOf(ctx context.Context) *Runner { return ctx.Value(runnerKey{}).(*Runner) }

// Admit returns the guard of the routes of runners, an [openapi.Guard].
func (s *Server) Admit(maxBody int64) func(w http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
	return func(w http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
		if err := s.checkRequest(r, maxBody); err != nil {
			return nil, nil, err
		}
		runner, err := s.identify(w, r)
		if err != nil {
			return nil, nil, err
		}
		return context.WithValue(r.Context(), runnerKey{}, runner), func() {}, nil
	}
}

// checkRequest refuses a malformed request, and any request if the farm is off.
func (s *Server) checkRequest(r *http.Request, maxBody int64) error {
	if err := reply.CheckRequest(r, maxBody); err != nil {
		return err
	}
	if !s.Enabled {
		return farm.ErrFarmOff
	}
	return nil
}

// identify authenticates the runner of a request, and applies the rate limits. It reads the
// runner and the list of authorities from the database and no cache, so that a revoked runner is
// not admitted once the revocation is acknowledged. Only whether the vault confirms an authority is
// cached.
//
// Requests are counted per runner, and per address if they have no valid certificate. The address
// is counted before the database is read, unless a cached authority has signed the certificate.
// Forged certificates therefore cost no query, and do not use up the limit of runners behind the
// same address, such as a proxy's.
func (s *Server) identify(w http.ResponseWriter, r *http.Request) (*Runner, error) {
	byAddress := func() error { return s.Limit.Allow(w.Header(), limit.Address(r)) }
	shown, named, err := s.shownCertificate(r)
	if err != nil {
		return nil, cmp.Or(byAddress(), err)
	}
	signed := s.authorities.signed(shown, named.Workspace, s.Now())
	if !signed {
		if err := byAddress(); err != nil {
			return nil, err
		}
	}
	runner, err := s.lookupRunner(r, shown, named, true)
	switch f := fault.As(err); {
	case f != nil && f.Kind == fault.Unauthenticated && signed:
		return nil, cmp.Or(byAddress(), err)
	case f != nil && f.Kind == fault.Denied:
		return nil, cmp.Or(s.Limit.Allow(w.Header(), named.Runner.String()), err)
	case err != nil:
		return nil, err
	}
	return runner, s.Limit.Allow(w.Header(), runner.ID.String())
}

// shownCertificate returns the forwarded certificate, which is not verified yet, and the identity
// that it claims.
func (s *Server) shownCertificate(r *http.Request) (shown *x509.Certificate, named certificate.Identity, err error) {
	switch {
	case s.Header == "" || len(r.Header.Values(s.Header)) == 0:
		return nil, named, errNoCertificate
	case !s.isTrustedPeer(r):
		return nil, named, errGateway
	}
	shown, err = certificate.FromHeader(r.Header.Values(s.Header))
	if errors.Is(err, certificate.ErrMissing) {
		return nil, named, errNoCertificate
	}
	if err == nil {
		named, err = certificate.IdentityOf(shown)
	}
	switch {
	case err != nil:
		return nil, named, s.refuseCertificate(r, err)
	case s.Now().After(shown.NotAfter):
		return nil, named, errExpired
	}
	return shown, named, nil
}

// isTrustedPeer reports whether the peer of the connection is a trusted gateway. The forwarded
// address does not count, since anybody else can send any header.
func (s *Server) isTrustedPeer(r *http.Request) bool {
	if s.TrustedProxy == nil {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && s.TrustedProxy(peer.Addr())
}

// refuseCertificate logs why a certificate is invalid, and returns the common error.
func (s *Server) refuseCertificate(r *http.Request, why error) error {
	s.Log.DebugContext(r.Context(), "a certificate is refused", "why", why)
	return ErrCertificateRequired
}

// lookupRunner verifies a certificate against the database and returns its runner. The first use of
// a renewed certificate is recorded if noteFirstUse is set, and then looked up again.
func (s *Server) lookupRunner(r *http.Request, shown *x509.Certificate, named certificate.Identity, noteFirstUse bool) (*Runner, error) {
	h, err := s.Runners.Holder(r.Context(), named.Workspace, named.Runner)
	if err != nil {
		return nil, err
	}
	authorities, err := s.trustedAuthorities(r.Context(), named.Workspace, h.Authorities)
	if err != nil {
		return nil, err
	}
	if err := certificate.Verify(shown, authorities, s.Now()); err != nil {
		return nil, s.refuseCertificate(r, err)
	}
	if h.State == nil {
		return nil, s.refuseCertificate(r, errors.New("there is no such runner"))
	}
	c := &Runner{
		Runner: dispatch.Runner{
			Workspace: named.Workspace, ID: named.Runner, Name: *h.Name, NotAfter: named.NotAfter,
			Envelope: envelopeOf(r, events.Actor{Type: events.ByRunner, ID: named.Runner, Name: *h.Name}),
		},
		State: *h.State, Serial: named.Serial, Version: *h.Version,
	}
	if err := stateError(*h.State); err != nil {
		return nil, err
	}
	if h.Deleted {
		return nil, errWorkspaceGone // not final: the runner tries again
	}
	if named.Serial == *h.Serial {
		return c, nil
	}
	if !noteFirstUse {
		return nil, s.refuseCertificate(r, errors.New("its serial number is not current"))
	}
	show := commands.ShowCertificate{Meta: c.Meta(), Runner: c.ID, Serial: c.Serial}
	if _, err := s.Commands.ShowCertificate(r.Context(), show); err != nil {
		if f := fault.As(err); f != nil && f.Kind == fault.Conflict {
			return nil, s.refuseCertificate(r, err)
		}
		return nil, err
	}
	return s.lookupRunner(r, shown, named, false)
}

// stateError returns why a runner in a state is not admitted, or nil.
func stateError(state events.RunnerState) error {
	switch state {
	case events.RunnerStateSuspended:
		return errRunnerSuspended
	case events.RunnerStateRevoked:
		return errRunnerRevoked
	case events.RunnerStateRetired:
		return errRunnerRetired
	}
	return nil
}

func envelopeOf(r *http.Request, by events.Actor) events.Envelope {
	return events.Envelope{
		Actor: by, Origin: events.FromFarm,
		IP: middleware.Address(r), RequestID: middleware.RequestID(r.Context()), UserAgent: middleware.UserAgent(r),
	}
}
