package rest

import (
	"context"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/projections"
)

// errTokenShown says that a token was shown when it was made, and never again.
var errTokenShown = fault.New(fault.Conflict, "token_already_shown", "This was done before, and its token was shown then. Rotate the account to get another one.")

type serviceAccount struct {
	ID          string         `json:"id" format:"uuid"`
	Name        string         `json:"name" example:"ci-bot"`
	DisplayRole string         `json:"displayRole" enum:"Service"`
	Scopes      []events.Scope `json:"scopes" nullable:"false" enum:"api.read,farm.submit"`
	TokenTail   string         `json:"tokenTail" doc:"The last four characters of the current token." example:"x9Qa"`
	Status      string         `json:"status" enum:"active,revoked"`
	LastUsedAt  *timestamp     `json:"lastUsedAt" nullable:"true"`
	CreatedBy   string         `json:"createdBy" example:"ada@acme.example"`
	CreatedAt   timestamp      `json:"createdAt"`
	RotatedAt   *timestamp     `json:"rotatedAt" nullable:"true"`
	RevokedAt   *timestamp     `json:"revokedAt" nullable:"true"`
}

func newServiceAccount(a projections.ServiceAccount) serviceAccount {
	return serviceAccount{
		ID: a.ID.String(), Name: a.Name, DisplayRole: "Service", Scopes: a.Scopes, TokenTail: a.Tail, Status: a.Status,
		LastUsedAt: optional(a.LastUsedAt), CreatedBy: a.CreatedBy, CreatedAt: at(a.CreatedAt),
		RotatedAt: optional(a.RotatedAt), RevokedAt: optional(a.RevokedAt),
	}
}

type accountsAnswer struct{ Body List[serviceAccount] }

type accountsQuery struct{ Paging }

func (s *Server) listServiceAccounts(ctx context.Context, in *accountsQuery) (*accountsAnswer, error) {
	found, total, err := s.ServiceAccounts.Page(ctx, callerOf(ctx).workspace, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	return &accountsAnswer{newList(found, total, in.Paging, newServiceAccount)}, nil
}

type newAccount struct {
	Once
	Body struct {
		Name   accountName    `json:"name" doc:"3 to 40 lower-case letters, digits and hyphens; starts with a letter." example:"ci-bot"`
		Scopes []events.Scope `json:"scopes" nullable:"false" minItems:"1" maxItems:"10" enum:"api.read,farm.submit" doc:"At least one of api.read, farm.submit." example:"[\"api.read\"]"`
	}
}

// A tokenAnswer is the one answer in which a token appears.
type tokenAnswer struct {
	Position
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Account serviceAccount `json:"account"`
		Token   string         `json:"token" doc:"The whole token. It is shown this once." example:"tok_svc_…"`
	}
}

func (in *newAccount) command(c *caller, _ events.ID) commands.CreateServiceAccount {
	return commands.CreateServiceAccount{Meta: c.orderOnce(in.Once), Name: string(in.Body.Name), Scopes: in.Body.Scopes}
}

func (s *Server) createServiceAccount(ctx context.Context, in *newAccount) (*tokenAnswer, error) {
	create := in.command(callerOf(ctx), events.ID{})
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
	Once
}

func (in *rotation) command(c *caller, id events.ID) commands.RotateServiceAccount {
	return commands.RotateServiceAccount{Meta: c.orderOnce(in.Once), Account: id}
}

func (s *Server) rotateServiceAccount(ctx context.Context, in *rotation) (*tokenAnswer, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoServiceAccount
	}
	rotate := in.command(callerOf(ctx), id)
	rotate.Token = commands.NewServiceToken()
	done, err := s.Commands.RotateServiceAccount(ctx, rotate)
	return s.showToken(ctx, done, err, id, rotate.Token)
}

func (s *Server) showToken(ctx context.Context, done commands.Result, err error, id events.ID, token commands.ServiceToken) (*tokenAnswer, error) {
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
	account.TokenTail = token.Tail() // of this token, also if somebody has rotated it meanwhile
	out.Body.Account, out.Body.Token = account, token.Reveal()
	return out, nil
}

type accountAnswer struct {
	Position
	Body serviceAccount
}

func (in *AccountPath) revoke(c *caller, id events.ID) commands.RevokeServiceAccount {
	return commands.RevokeServiceAccount{Meta: c.meta(), Account: id}
}

func (s *Server) revokeServiceAccount(ctx context.Context, in *AccountPath) (*accountAnswer, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoServiceAccount
	}
	done, err := s.Commands.RevokeServiceAccount(ctx, in.revoke(callerOf(ctx), id))
	if err != nil {
		return nil, err
	}
	account, err := s.account(ctx, id)
	if err != nil {
		return nil, err
	}
	return &accountAnswer{Position{done.Position}, account}, nil
}

func (s *Server) account(ctx context.Context, id events.ID) (serviceAccount, error) {
	a, ok, err := s.ServiceAccounts.Of(ctx, callerOf(ctx).workspace, id)
	switch {
	case err != nil:
		return serviceAccount{}, err
	case !ok:
		return serviceAccount{}, aggregates.ErrNoServiceAccount
	}
	return newServiceAccount(a), nil
}
