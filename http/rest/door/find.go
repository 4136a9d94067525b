package door

import (
	"context"

	"svc/events"
	"svc/fault"
)

// ParseID parses the id in a path. Text that is not an id fails with missing, like the id of a
// row that does not exist.
func ParseID(text string, missing *fault.Fault) (events.ID, error) {
	id, err := events.ParseID(text)
	if err != nil {
		return id, missing
	}
	return id, nil
}

// CheckFound returns the error of a look-up, or missing if it found no row.
func CheckFound(ok bool, err error, missing *fault.Fault) error {
	if err == nil && !ok {
		return missing
	}
	return err
}

// Find returns the row that get finds in the caller's workspace, or missing.
func Find[T any](
	ctx context.Context, id events.ID, missing *fault.Fault, get func(ctx context.Context, workspace, id events.ID) (T, bool, error),
) (T, error) {
	found, ok, err := get(ctx, CallerOf(ctx).Workspace, id)
	return found, CheckFound(ok, err, missing)
}

// FindInPath is find for the id in a path.
func FindInPath[T any](
	ctx context.Context, text string, missing *fault.Fault, get func(ctx context.Context, workspace, id events.ID) (T, bool, error),
) (found T, err error) {
	id, err := ParseID(text, missing)
	if err != nil {
		return found, err
	}
	return Find(ctx, id, missing, get)
}

// A BodyAnswer is an answer of one body.
type BodyAnswer[B any] struct{ Body B }

// ShowInPath answers with what show returns for the id in a path.
func ShowInPath[B any](
	ctx context.Context, text string, missing *fault.Fault, show func(context.Context, events.ID) (B, error),
) (*BodyAnswer[B], error) {
	id, err := ParseID(text, missing)
	if err != nil {
		return nil, err
	}
	body, err := show(ctx, id)
	return &BodyAnswer[B]{body}, err
}
