package people

import (
	"context"
	"net/http"

	"svc/aggregates"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
)

func (s *Server) serviceAccountRoutes() door.Section {
	revoked, rotated := ExampleAccount, ExampleAccount
	revoked.Status, revoked.RevokedAt = "revoked", new(schema.ExampleAt(0))
	rotated.RotatedAt = new(schema.ExampleAt(0))
	return door.Section{Tag: "Service accounts", About: "Identities for scripts, each with one token.", Routes: []door.Route{
		door.Query(s.listServiceAccounts, door.Route{
			Method: "GET", Path: "/service-accounts", Guard: door.MayDo(events.ManageServiceAccounts),
			ID: "listServiceAccounts", Summary: "List service accounts",
			Text:          "Lists active service accounts by name, then revoked ones. Only the last four characters of a token are shown.",
			AnswerExample: schema.NewList([]projections.ServiceAccount{ExampleAccount}, 1, schema.ExamplePage, newServiceAccount),
		}),
		door.Command((*newAccount).toCommand, s.createServiceAccount, door.Route{
			Method: "POST", Path: "/service-accounts", Guard: door.MayDo(events.ManageServiceAccounts),
			ID: "createServiceAccount", Summary: "Create a service account", Status: http.StatusCreated,
			Text: "Creates a service account with a token. The token is only in this response and cannot be read again. " +
				door.Daily("create 100 service accounts"),
			Refuses:        []*fault.Fault{aggregates.ErrServiceAccountNameUsed, errTokenShown, commands.ErrKeyReused},
			RequestExample: schema.Object{"name": ExampleAccount.Name, "scopes": ExampleAccount.Scopes},
			AnswerExample:  exampleToken(ExampleAccount),
		}),
		door.Command((*rotation).toCommand, s.rotateServiceAccount, door.Route{
			Method: "POST", Path: "/service-accounts/{id}/rotate", Guard: door.MayDo(events.ManageServiceAccounts),
			ID: "rotateServiceAccount", Summary: "Rotate a token",
			Text: "Replaces the account's token. The new token is only in this response and cannot be read again. The old token has stopped " +
				"working when the response arrives. " + door.Daily("rotate 500 tokens"),
			Missing:       aggregates.ErrNoServiceAccount,
			Refuses:       []*fault.Fault{aggregates.ErrServiceAccountRevoked, errTokenShown, commands.ErrKeyReused},
			AnswerExample: exampleToken(rotated),
		}),
		door.Command((*AccountPath).revoke, s.revokeServiceAccount, door.Route{
			Method: "POST", Path: "/service-accounts/{id}/revoke", Guard: door.MayDo(events.ManageServiceAccounts),
			ID: "revokeServiceAccount", Summary: "Revoke a service account",
			Text:          "Permanently disables the account and its token, at once. No other account of the workspace can have its name.",
			Missing:       aggregates.ErrNoServiceAccount,
			Refuses:       []*fault.Fault{aggregates.ErrServiceAccountRevoked},
			AnswerExample: newServiceAccount(revoked),
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

func (a *serviceAccount) names() []door.NamePlace {
	return []door.NamePlace{{Address: a.CreatedBy, Name: &a.CreatorName}}
}

type accountsAnswer struct{ Body schema.List[serviceAccount] }

type accountsQuery struct{ schema.Paging }

func (s *Server) listServiceAccounts(ctx context.Context, in *accountsQuery) (*accountsAnswer, error) {
	found, total, err := s.ServiceAccounts.Page(ctx, door.CallerOf(ctx).Workspace, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	out := &accountsAnswer{schema.NewList(found, total, in.Paging, newServiceAccount)}
	return out, door.AddNames(ctx, s.Door, out.Body.Items, (*serviceAccount).names)
}

type newAccount struct {
	schema.Idempotency
	Body struct {
		Name   accountName    `json:"name" doc:"3 to 40 lower-case letters, digits and hyphens; starts with a letter." example:"ci-bot"`
		Scopes []events.Scope `json:"scopes" nullable:"false" minItems:"1" maxItems:"10" enum:"api.read,farm.submit" doc:"At least one of api.read, farm.submit." example:"[\"api.read\"]"`
	}
}

// A tokenAnswer is the only answer that contains a token.
type tokenAnswer struct {
	schema.Position
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Account serviceAccount `json:"account"`
		Token   string         `json:"token" doc:"The full token. It is shown only once." example:"tok_svc_…"`
	}
}

func (in *newAccount) toCommand(c *door.Caller, _ events.ID) (commands.CreateServiceAccount, error) {
	return commands.CreateServiceAccount{Meta: c.MetaWithKey(in.Idempotency), Name: string(in.Body.Name), Scopes: in.Body.Scopes}, nil
}

func (s *Server) createServiceAccount(ctx context.Context, _ *newAccount, create commands.CreateServiceAccount) (*tokenAnswer, error) {
	create.Account, create.Token = events.NewID(s.Now()), bearer.NewServiceToken()
	done, err := s.Commands.CreateServiceAccount(ctx, create)
	return s.showToken(ctx, done, err, create.Account, create.Token)
}

// An AccountPath names a service account.
type AccountPath struct {
	ID string `path:"id" maxLength:"64" doc:"The service account's id."`
}

type rotation struct {
	AccountPath
	schema.Idempotency
}

func (in *rotation) toCommand(c *door.Caller, id events.ID) (commands.RotateServiceAccount, error) {
	return commands.RotateServiceAccount{Meta: c.MetaWithKey(in.Idempotency), Account: id}, nil
}

func (s *Server) rotateServiceAccount(ctx context.Context, _ *rotation, rotate commands.RotateServiceAccount) (*tokenAnswer, error) {
	rotate.Token = bearer.NewServiceToken()
	done, err := s.Commands.RotateServiceAccount(ctx, rotate)
	return s.showToken(ctx, done, err, rotate.Account, rotate.Token)
}

func (s *Server) showToken(
	ctx context.Context, done commands.Result, err error, id events.ID, token bearer.ServiceToken,
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
	out := &tokenAnswer{Position: schema.Position{Position: done.Position}, CacheControl: "no-store"}
	account.TokenTail = token.Tail() // of this token, even if it was rotated again meanwhile
	out.Body.Account, out.Body.Token = account, token.Reveal()
	return out, nil
}

type accountAnswer struct {
	schema.Position
	Body serviceAccount
}

func (in *AccountPath) revoke(c *door.Caller, id events.ID) (commands.RevokeServiceAccount, error) {
	return commands.RevokeServiceAccount{Meta: c.Meta(), Account: id}, nil
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
	return &accountAnswer{schema.Position{Position: done.Position}, account}, nil
}

func (s *Server) account(ctx context.Context, id events.ID) (serviceAccount, error) {
	a, err := door.Find(ctx, id, aggregates.ErrNoServiceAccount, s.ServiceAccounts.Get)
	if err != nil {
		return serviceAccount{}, err
	}
	return door.WithNames(ctx, s.Door, newServiceAccount(a), (*serviceAccount).names)
}

// ExampleAccount is the service account of the example workspace.
var ExampleAccount = projections.ServiceAccount{
	ID: schema.ExampleNo(7), Name: "ci-bot", Scopes: []events.Scope{events.ReadAPI}, Tail: "x9Qa", Status: "active",
	CreatedBy: schema.ExampleAda.Name, CreatedAt: schema.ExampleAt(500),
}

func exampleToken(a projections.ServiceAccount) schema.Object {
	return schema.Object{"account": newServiceAccount(a), "token": "tok_svc_…" + a.Tail}
}
