package rest

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/lru"
	"svc/projections"
)

func (s *Server) serviceAccountRoutes() section {
	revoked, rotated := exampleAccount, exampleAccount
	revoked.Status, revoked.RevokedAt = "revoked", new(exampleAt(0))
	rotated.RotatedAt = new(exampleAt(0))
	return section{tag: "Service accounts", about: "Identities for scripts, each with one token.", routes: []route{
		query(s.listServiceAccounts, route{
			method: "GET", path: "/service-accounts", guard: mayDo(events.ManageServiceAccounts),
			id: "listServiceAccounts", summary: "List service accounts",
			text:          "Lists active service accounts by name, then revoked ones. Only the last four characters of a token are shown.",
			answerExample: newList([]projections.ServiceAccount{exampleAccount}, 1, examplePage, newServiceAccount),
		}),
		command((*newAccount).toCommand, s.createServiceAccount, route{
			method: "POST", path: "/service-accounts", guard: mayDo(events.ManageServiceAccounts),
			id: "createServiceAccount", summary: "Create a service account", status: http.StatusCreated,
			text: "Creates a service account with a token. The token is only in this response and cannot be read again. " +
				daily("create 100 service accounts"),
			refuses:        []*fault.Fault{aggregates.ErrServiceAccountNameUsed, errTokenShown, commands.ErrKeyReused},
			requestExample: object{"name": exampleAccount.Name, "scopes": exampleAccount.Scopes},
			answerExample:  exampleToken(exampleAccount),
		}),
		command((*rotation).toCommand, s.rotateServiceAccount, route{
			method: "POST", path: "/service-accounts/{id}/rotate", guard: mayDo(events.ManageServiceAccounts),
			id: "rotateServiceAccount", summary: "Rotate a token",
			text: "Replaces the account's token. The new token is only in this response and cannot be read again. The old token has stopped " +
				"working when the response arrives. " + daily("rotate 500 tokens"),
			missing:       aggregates.ErrNoServiceAccount,
			refuses:       []*fault.Fault{aggregates.ErrServiceAccountRevoked, errTokenShown, commands.ErrKeyReused},
			answerExample: exampleToken(rotated),
		}),
		command((*AccountPath).revoke, s.revokeServiceAccount, route{
			method: "POST", path: "/service-accounts/{id}/revoke", guard: mayDo(events.ManageServiceAccounts),
			id: "revokeServiceAccount", summary: "Revoke a service account",
			text:          "Permanently disables the account and its token, at once. No other account of the workspace can have its name.",
			missing:       aggregates.ErrNoServiceAccount,
			refuses:       []*fault.Fault{aggregates.ErrServiceAccountRevoked},
			answerExample: newServiceAccount(revoked),
		}),
	}}
}

// errTokenShown answers a retry of a request that returned a token, which is not stored.
var errTokenShown = fault.New(fault.Conflict, "token_already_shown",
	"This request was processed before and its token was shown then. Rotate the account to get a new token.")

type serviceAccount struct {
	ID          string             `json:"id" format:"uuid"`
	Name        string             `json:"name" example:"ci-bot"`
	DisplayRole string             `json:"displayRole" enum:"Service"`
	Scopes      []events.Scope     `json:"scopes" nullable:"false" enum:"api.read,farm.submit"`
	TokenTail   string             `json:"tokenTail" doc:"The last four characters of the current token." example:"x9Qa"`
	Status      string             `json:"status" enum:"active,revoked"`
	LastUsedAt  *openapi.Timestamp `json:"lastUsedAt" nullable:"true"`
	CreatedBy   string             `json:"createdBy" example:"ada@acme.example"`
	CreatorName string             `json:"createdByName,omitempty" doc:"Name of the person who has this address now. Absent for other actors." example:"Ada Lind"`
	CreatedAt   openapi.Timestamp  `json:"createdAt"`
	RotatedAt   *openapi.Timestamp `json:"rotatedAt" nullable:"true"`
	RevokedAt   *openapi.Timestamp `json:"revokedAt" nullable:"true"`
}

func newServiceAccount(a projections.ServiceAccount) serviceAccount {
	return serviceAccount{
		ID: a.ID.String(), Name: a.Name, DisplayRole: "Service", Scopes: a.Scopes, TokenTail: a.Tail, Status: a.Status,
		LastUsedAt: openapi.FormatOptionalTime(a.LastUsedAt), CreatedBy: a.CreatedBy, CreatedAt: openapi.FormatTime(a.CreatedAt),
		RotatedAt: openapi.FormatOptionalTime(a.RotatedAt), RevokedAt: openapi.FormatOptionalTime(a.RevokedAt),
	}
}

func (a *serviceAccount) names() []namePlace { return []namePlace{{a.CreatedBy, &a.CreatorName}} }

type accountsAnswer struct{ Body List[serviceAccount] }

type accountsQuery struct{ Paging }

func (s *Server) listServiceAccounts(ctx context.Context, in *accountsQuery) (*accountsAnswer, error) {
	found, total, err := s.Primary.ServiceAccounts.Page(ctx, callerOf(ctx).workspace, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	out := &accountsAnswer{newList(found, total, in.Paging, newServiceAccount)}
	return out, addNames(ctx, s, out.Body.Items, (*serviceAccount).names)
}

type newAccount struct {
	Idempotency
	Body struct {
		Name   accountName    `json:"name" doc:"3 to 40 lower-case letters, digits and hyphens; starts with a letter." example:"ci-bot"`
		Scopes []events.Scope `json:"scopes" nullable:"false" minItems:"1" maxItems:"10" enum:"api.read,farm.submit" doc:"At least one of api.read, farm.submit." example:"[\"api.read\"]"`
	}
}

// A tokenAnswer is the only answer that contains a token.
type tokenAnswer struct {
	Position
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Account serviceAccount `json:"account"`
		Token   string         `json:"token" doc:"The full token. It is shown only once." example:"tok_svc_…"`
	}
}

func (in *newAccount) toCommand(c *caller, _ events.ID) (commands.CreateServiceAccount, error) {
	return commands.CreateServiceAccount{Meta: c.metaWithKey(in.Idempotency), Name: string(in.Body.Name), Scopes: in.Body.Scopes}, nil
}

func (s *Server) createServiceAccount(ctx context.Context, _ *newAccount, create commands.CreateServiceAccount) (*tokenAnswer, error) {
	create.Account, create.Token = events.NewID(s.Now()), commands.NewServiceToken()
	done, err := s.Commands.CreateServiceAccount(ctx, create)
	return s.showToken(ctx, done, err, create.Account, create.Token)
}

// An AccountPath names a service account.
type AccountPath struct {
	ID string `path:"id" maxLength:"64" doc:"The service account's id."`
}

type rotation struct {
	AccountPath
	Idempotency
}

func (in *rotation) toCommand(c *caller, id events.ID) (commands.RotateServiceAccount, error) {
	return commands.RotateServiceAccount{Meta: c.metaWithKey(in.Idempotency), Account: id}, nil
}

func (s *Server) rotateServiceAccount(ctx context.Context, _ *rotation, rotate commands.RotateServiceAccount) (*tokenAnswer, error) {
	rotate.Token = commands.NewServiceToken()
	done, err := s.Commands.RotateServiceAccount(ctx, rotate)
	return s.showToken(ctx, done, err, rotate.Account, rotate.Token)
}

func (s *Server) showToken(
	ctx context.Context, done commands.Result, err error, id events.ID, token commands.ServiceToken,
) (*tokenAnswer, error) {
	switch {
	case err != nil:
		return nil, err
	case done.Replayed:
		return nil, errTokenShown
	}
	account, err := s.account(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &tokenAnswer{Position: Position{done.Position}, CacheControl: "no-store"}
	account.TokenTail = token.Tail() // of this token, even if it was rotated again meanwhile
	out.Body.Account, out.Body.Token = account, token.Reveal()
	return out, nil
}

type accountAnswer struct {
	Position
	Body serviceAccount
}

func (in *AccountPath) revoke(c *caller, id events.ID) (commands.RevokeServiceAccount, error) {
	return commands.RevokeServiceAccount{Meta: c.meta(), Account: id}, nil
}

func (s *Server) revokeServiceAccount(ctx context.Context, _ *AccountPath, revoke commands.RevokeServiceAccount) (*accountAnswer, error) {
	done, err := s.Commands.RevokeServiceAccount(ctx, revoke)
	if err != nil {
		return nil, err
	}
	account, err := s.account(ctx, revoke.Account)
	if err != nil {
		return nil, err
	}
	return &accountAnswer{Position{done.Position}, account}, nil
}

func (s *Server) account(ctx context.Context, id events.ID) (serviceAccount, error) {
	a, err := find(ctx, id, aggregates.ErrNoServiceAccount, s.Primary.ServiceAccounts.Get)
	if err != nil {
		return serviceAccount{}, err
	}
	return withNames(ctx, s, newServiceAccount(a), (*serviceAccount).names)
}

var exampleAccount = projections.ServiceAccount{
	ID: exampleNo(7), Name: "ci-bot", Scopes: []events.Scope{events.ReadAPI}, Tail: "x9Qa", Status: "active",
	CreatedBy: exampleAda.Name, CreatedAt: exampleAt(500),
}

func exampleToken(a projections.ServiceAccount) object {
	return object{"account": newServiceAccount(a), "token": "tok_svc_…" + a.Tail}
}

const (
	staleQueueSize   = 256              // uses that wait to be recorded; further ones are dropped
	staleTimeout     = 10 * time.Second // to record one use
	maxStaleAccounts = 10_000           // accounts whose last recorded use is cached
	staleInterval    = time.Hour        // between recorded uses of an account
)

// staleUses records uses of tokens that are no longer current. It does so in the background, so that the
// time of a refusal does not reveal whether the token once existed.
type staleUses struct {
	commands *commands.Handler
	log      *slog.Logger
	waiting  chan commands.NoteStaleToken
	recorded *lru.Cache[events.ID, time.Time] // time of the last record by account; a cache, the command decides
}

func newStaleUses(c *commands.Handler, log *slog.Logger) *staleUses {
	return &staleUses{
		commands: c, log: log, waiting: make(chan commands.NoteStaleToken, staleQueueSize),
		recorded: lru.New[events.ID, time.Time](maxStaleAccounts),
	}
}

func (s *Server) recordStaleUse(t projections.ServiceToken, e events.Envelope) {
	if last, ok := s.stale.recorded.Get(t.Account); ok && s.Now().Sub(last) < staleInterval {
		return
	}
	e.Actor = events.Actor{Type: events.BySystem, Name: "system"}
	e.TokenTail = t.Tail
	use := commands.NoteStaleToken{Meta: commands.Meta{Envelope: e, Workspace: t.Workspace}, Account: t.Account, Tail: t.Tail}
	select {
	case s.stale.waiting <- use:
		s.stale.recorded.Add(t.Account, s.Now())
	default: // the queue is full
	}
}

// run records uses until ctx ends.
func (u *staleUses) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case use := <-u.waiting:
			limited, cancel := context.WithTimeout(ctx, staleTimeout)
			if _, err := u.commands.NoteStaleToken(limited, use); err != nil && ctx.Err() == nil {
				u.log.WarnContext(ctx, "record the use of an old token", "account", use.Account, "err", err)
			}
			cancel()
		}
	}
}
