// Package farm decides what may happen on the build farm: to jobs, to the machines that run them, and to their secrets.
// Its aggregates are as those of package aggregates.
package farm

import "svc/events"

func oneEvent(e events.Event) ([]events.Event, error) { return []events.Event{e}, nil }
