package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"svc/commands"
	"svc/events"
)

type retrial struct {
	Idempotency
	ID string `path:"id" maxLength:"64" doc:"The run's id."`
}

func (in *retrial) toCommand(c *caller, id events.ID) (commands.RetryRun, error) {
	return commands.RetryRun{Meta: c.metaWithKey(in.Idempotency), Run: id}, nil
}

func (s *Server) retryRun(ctx context.Context, _ *retrial, retry commands.RetryRun) (*queuedAnswer, error) {
	retry.New = events.NewID(s.Now())
	done, err := s.Commands.RetryRun(ctx, retry)
	if err != nil {
		return nil, err
	}
	if done.Replayed {
		var stored commands.RunAnswer
		if err := json.Unmarshal(done.Answer, &stored); err != nil {
			return nil, fmt.Errorf("decode stored answer: %w", err)
		}
		retry.New = stored.Run
	}
	return s.awaitRun(ctx, done, retry.New)
}
