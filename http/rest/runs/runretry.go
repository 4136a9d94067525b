package runs

import (
	"context"

	"svc/commands"
	"svc/events"
	"svc/http/rest/door"
	"svc/http/rest/schema"
)

type retrial struct {
	schema.Idempotency
	ID string `path:"id" maxLength:"64" doc:"The run's id."`
}

func (in *retrial) toCommand(c *door.Caller, id events.ID) (commands.RetryRun, error) {
	return commands.RetryRun{Meta: c.MetaWithKey(in.Idempotency), Run: id}, nil
}

func (s *Server) retryRun(ctx context.Context, _ *retrial, retry commands.RetryRun) (*queuedAnswer, error) {
	retry.New = events.NewID(s.Now())
	done, err := s.Commands.RetryRun(ctx, retry)
	if err != nil {
		return nil, err
	}
	return s.showQueued(ctx, done, retry.New)
}
