package farm

import (
	"bytes"
	"maps"
	"slices"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// MaxFarmSecrets is how many secrets a workspace may have.
const MaxFarmSecrets = 100

// The reasons for which a command about farm secrets is refused.
var (
	ErrNoFarmSecret  = fault.New(fault.NotFound, "farm_secret_not_found", "There is no such secret.")
	ErrFarmSecretMax = fault.New(fault.Conflict, "farm_secrets_full", "A workspace has %d secrets at most. Remove one first.", MaxFarmSecrets)
)

// FarmSecrets are the secrets that jobs of a workspace receive by name. The values are in
// the vault.
type FarmSecrets struct {
	values map[string]events.ID
	scopes map[string]events.SecretScope // those that restrict something
}

// Apply adds one event.
func (s *FarmSecrets) Apply(e events.Event, _ events.Actor) {
	switch e := e.(type) {
	case events.FarmSecretSet:
		if s.values == nil {
			s.values = map[string]events.ID{}
		}
		s.values[e.Name] = e.Value
	case events.FarmSecretScoped:
		if s.scopes == nil {
			s.scopes = map[string]events.SecretScope{}
		}
		s.scopes[e.Name] = e.Scope
	case events.FarmSecretRemoved:
		delete(s.values, e.Name)
		delete(s.scopes, e.Name)
	}
}

// Value returns the vault's id of a secret's value, or the zero ID if there is no such
// secret.
func (s *FarmSecrets) Value(name string) events.ID { return s.values[name] }

// Values returns the vault's ids of all values, by the names of their secrets.
func (s *FarmSecrets) Values() map[string]events.ID { return maps.Clone(s.values) }

// Barred returns the first of a job's secrets that the job may not use, because the secret's scope does not include
// it, or "" if there is none.
func (s *FarmSecrets) Barred(job events.JobSpec) string {
	for _, name := range job.Secrets {
		if !s.scopes[name].Allows(job) {
			return name
		}
	}
	return ""
}

const maxScope = 50 // items of each list of a scope

// Set gives a secret a value, which replaces the one before, unless value is zero, and a scope, unless scope is nil.
func (s *FarmSecrets) Set(name string, value events.ID, scope *events.SecretScope) (list []events.Event, err error) {
	if err := SecretName.Check("name", name); err != nil {
		return nil, err
	}
	switch _, there := s.values[name]; {
	case !there && value.IsZero():
		return nil, ErrNoFarmSecret
	case !there && len(s.values) >= MaxFarmSecrets:
		return nil, ErrFarmSecretMax
	case !value.IsZero():
		list = append(list, events.FarmSecretSet{Name: name, Value: value})
	}
	if scope == nil {
		return list, nil
	}
	checked, err := checkScope(*scope)
	if err != nil {
		return nil, err
	}
	if !checked.Equal(s.scopes[name]) {
		list = append(list, events.FarmSecretScoped{Name: name, Scope: checked, From: s.scopes[name]})
	}
	return list, nil
}

func checkScope(s events.SecretScope) (events.SecretScope, error) {
	byID := func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) }
	out := events.SecretScope{Repos: slices.Compact(slices.SortedFunc(slices.Values(s.Repos), byID))}
	for field, n := range map[string]int{"jobs": len(s.Jobs), "repos": len(s.Repos)} {
		if n > maxScope {
			return out, fault.Field("scope."+field, "must have %d items or fewer", maxScope)
		}
	}
	for _, name := range s.Jobs {
		clean, err := input.Name("scope.jobs", name)
		if err != nil {
			return out, err
		}
		out.Jobs = append(out.Jobs, clean)
	}
	if err := checkLabels("scope.labels", s.Labels); err != nil {
		return out, err
	}
	out.Jobs = slices.Compact(slices.Sorted(slices.Values(out.Jobs)))
	out.Labels = slices.Compact(slices.Sorted(slices.Values(s.Labels)))
	return out, nil
}

// Remove removes a secret.
func (s *FarmSecrets) Remove(name string) ([]events.Event, error) {
	value, there := s.values[name]
	if !there {
		return nil, ErrNoFarmSecret
	}
	return oneEvent(events.FarmSecretRemoved{Name: name, Value: value})
}
