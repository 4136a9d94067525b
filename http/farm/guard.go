package farm

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"svc/commands"
	"svc/events"
	"svc/farm/certificate"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/reply"
)

// Why a machine is not let in. What is wrong with a certificate nobody is told whose
// certificate it is not; that there is none at all, or a runner's end, helps who has one.
var (
	ErrOff                 = fault.New(fault.NotFound, "farm_off", "There is no build farm here.")
	ErrCertificateRequired = fault.New(fault.Unauthenticated, "runner_certificate_required",
		"This route needs the client certificate of a runner, forwarded by the farm's gateway.").With("reason", "certificate_invalid")
	errNoCertificate   = ErrCertificateRequired.With("reason", "no_certificate")
	errRunnerSuspended = fault.New(fault.Denied, "runner_suspended",
		"A certificate of this runner was used that had been replaced: somebody has a copy of its key. Enrol the machine anew.")
	errRunnerRevoked = fault.New(fault.Denied, "runner_revoked", "This runner was revoked. Enrol the machine anew.")
	errRunnerRetired = fault.New(fault.Denied, "runner_retired", "This runner has done the jobs that it was enrolled for.")
)

// A Runner is who makes a request: a machine with a certificate that counts.
type Runner struct {
	Workspace, ID events.ID
	Name          string
	State         events.RunnerState // when the request came in
	Serial        string             // of the certificate
	NotAfter      time.Time          // of the certificate
	Version       string             // of the agent, as it said last
	Envelope      events.Envelope    // of what the runner does
}

// Meta begins a command of the runner's.
func (r *Runner) Meta() commands.Meta {
	return commands.Meta{Envelope: r.Envelope, Workspace: r.Workspace}
}

type runnerKey struct{}

// RunnerOf returns who made a request that [Server.Admit] has let in.
func RunnerOf(ctx context.Context) *Runner { return ctx.Value(runnerKey{}).(*Runner) }

// Admit is what stands before the routes of runners; it is an [openapi.Guard].
func (s *Server) Admit(maxBody int64) func(w http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
	return func(w http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
		if err := s.readable(r, maxBody); err != nil {
			return nil, nil, err
		}
		runner, err := s.identify(w, r)
		if err != nil {
			return nil, nil, err
		}
		return context.WithValue(r.Context(), runnerKey{}, runner), func() {}, nil
	}
}

// readable refuses a request that is none, and any where there is no farm.
func (s *Server) readable(r *http.Request, maxBody int64) error {
	if err := reply.CheckForm(r, maxBody); err != nil {
		return err
	}
	if !s.On {
		return ErrOff
	}
	return nil
}

// identify says which runner makes a request, unless it has to wait. It looks in the database,
// never in memory: a runner that is revoked is not let in once that is answered. Requests are
// counted by their runner, and by their address if they cannot show one: before anything is
// looked up, unless an authority that is remembered has signed the certificate, so that whoever
// makes certificates up holds up no runner of the same address, which may be a proxy's.
func (s *Server) identify(w http.ResponseWriter, r *http.Request) (*Runner, error) {
	byAddress := func() error { return s.Limit.Allow(r.Context(), w.Header(), limit.Address(r)) }
	shown, named, err := s.shown(r)
	if err != nil {
		return nil, cmp.Or(byAddress(), err)
	}
	signed := s.authorities.signed(shown, named.Workspace, s.Now())
	if !signed {
		if err := byAddress(); err != nil {
			return nil, err
		}
	}
	runner, err := s.runner(r, shown, named, true)
	switch f := fault.As(err); {
	case f != nil && f.Kind == fault.Unauthenticated && signed:
		return nil, cmp.Or(byAddress(), err)
	case f != nil && f.Kind == fault.Denied:
		return nil, cmp.Or(s.Limit.Allow(r.Context(), w.Header(), limit.Caller(named.Runner)), err)
	case err != nil:
		return nil, err
	}
	return runner, s.Limit.Allow(r.Context(), w.Header(), limit.Caller(runner.ID))
}

// shown returns the certificate that the gateway forwards, which nobody has judged, and whom it
// names.
func (s *Server) shown(r *http.Request) (shown *x509.Certificate, named certificate.Identity, err error) {
	if s.Header == "" || !s.believed(r) {
		return nil, named, errNoCertificate
	}
	shown, err = certificate.FromHeader(r.Header.Values(s.Header))
	if errors.Is(err, certificate.ErrMissing) {
		return nil, named, errNoCertificate
	}
	if err == nil {
		named, err = certificate.IdentityOf(shown)
	}
	if err != nil {
		return nil, named, s.refused(r, err)
	}
	return shown, named, nil
}

// believed reports whether the peer of the connection is a gateway. Whom it forwards for
// does not matter: whoever else connects can write any header.
func (s *Server) believed(r *http.Request) bool {
	if s.Trusted == nil {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && s.Trusted(peer.Addr())
}

// refused is what anybody is told of a certificate that does not do.
func (s *Server) refused(r *http.Request, why error) error {
	s.Log.DebugContext(r.Context(), "a certificate is refused", "why", why)
	return ErrCertificateRequired
}

// runner looks up whom a certificate names, and whether it is theirs. The first use of a
// renewed one is noted, after which it is asked again.
func (s *Server) runner(r *http.Request, shown *x509.Certificate, named certificate.Identity, note bool) (*Runner, error) {
	h, err := s.Runners.Holder(r.Context(), named.Workspace, named.Runner)
	if err != nil {
		return nil, err
	}
	var authorities []*x509.Certificate
	for _, text := range h.Authorities {
		a, err := certificate.Parse(text)
		if err != nil {
			return nil, err
		}
		authorities = append(authorities, a)
	}
	if err := certificate.Verify(shown, authorities, s.Now()); err != nil {
		return nil, s.refused(r, err)
	}
	s.authorities.remember(named.Workspace, authorities)
	if h.State == nil {
		return nil, s.refused(r, errors.New("there is no such runner"))
	}
	c := &Runner{
		Workspace: named.Workspace, ID: named.Runner, Name: *h.Name, State: *h.State, Serial: named.Serial, NotAfter: named.NotAfter,
		Version: *h.Version, Envelope: envelopeOf(r, events.Actor{Type: events.ByRunner, ID: named.Runner, Name: *h.Name}),
	}
	if err := refusedState(*h.State); err != nil {
		return nil, err
	}
	if named.Serial == *h.Serial {
		return c, nil
	}
	if !note {
		return nil, s.refused(r, errors.New("its serial number is not current"))
	}
	show := commands.ShowCertificate{Meta: c.Meta(), Runner: c.ID, Serial: c.Serial}
	if _, err := s.Commands.ShowCertificate(r.Context(), show); err != nil {
		if f := fault.As(err); f != nil && f.Kind == fault.Conflict {
			return nil, s.refused(r, err)
		}
		return nil, err
	}
	return s.runner(r, shown, named, false)
}

// refusedState returns why a runner in a state is not let in, nil if it is.
func refusedState(state events.RunnerState) error {
	switch state {
	case events.RunnerIsSuspended:
		return errRunnerSuspended
	case events.RunnerIsRevoked:
		return errRunnerRevoked
	case events.RunnerIsRetired:
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
