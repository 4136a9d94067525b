package rest

import (
	"context"

	"svc/events"
	"svc/fault"
)

// parseID parses the id in a path. Text that is not an id fails with missing, like the id of a
// row that does not exist.
func parseID(text string, missing *fault.Fault) (events.ID, error) {
	id, err := events.ParseID(text)
	if err != nil {
		return id, missing
	}
	return id, nil
}

// checkFound returns the error of a look-up, or missing if it found no row.
func checkFound(ok bool, err error, missing *fault.Fault) error {
	if err == nil && !ok {
		return missing
	}
	return err
}

// find returns the row that get finds in the caller's workspace, or missing.
func find[T any](
	ctx context.Context, id events.ID, missing *fault.Fault, get func(ctx context.Context, workspace, id events.ID) (T, bool, error),
) (T, error) {
	found, ok, err := get(ctx, callerOf(ctx).workspace, id)
	return found, checkFound(ok, err, missing)
}

// findInPath is find for the id in a path.
func findInPath[T any](
	ctx context.Context, text string, missing *fault.Fault, get func(ctx context.Context, workspace, id events.ID) (T, bool, error),
) (found T, err error) {
	id, err := parseID(text, missing)
	if err != nil {
		return found, err
	}
	return find(ctx, id, missing, get)
}

// A bodyAnswer is an answer of one body.
type bodyAnswer[B any] struct{ Body B }

// showInPath answers with what show returns for the id in a path.
func showInPath[B any](
	ctx context.Context, text string, missing *fault.Fault, show func(context.Context, events.ID) (B, error),
) (*bodyAnswer[B], error) {
	id, err := parseID(text, missing)
	if err != nil {
		return nil, err
	}
	body, err := show(ctx, id)
	return &bodyAnswer[B]{body}, err
}
