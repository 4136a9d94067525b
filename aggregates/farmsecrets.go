package aggregates

import (
	"svc/events"
	"svc/fault"
)

// MaxFarmSecrets is how many secrets a workspace has at most.
const MaxFarmSecrets = 100

// Why secrets of jobs may refuse a command.
var (
	ErrNoFarmSecret  = fault.New(fault.NotFound, "farm_secret_not_found", "There is no such secret.")
	ErrFarmSecretMax = fault.New(fault.Conflict, "farm_secrets_full", "A workspace has %d secrets at most. Remove one first.", MaxFarmSecrets)
)

// FarmSecrets are what jobs of a workspace are given by name. Their values are in the vault.
type FarmSecrets struct {
	values map[string]events.ID
}

// Apply takes in one event.
func (s *FarmSecrets) Apply(e events.Event, _ events.ID) {
	switch e := e.(type) {
	case events.FarmSecretSet:
		if s.values == nil {
			s.values = map[string]events.ID{}
		}
		s.values[e.Name] = e.Value
	case events.FarmSecretRemoved:
		delete(s.values, e.Name)
	}
}

// Value returns the value that a secret has; it is zero if there is none.
func (s *FarmSecrets) Value(name string) events.ID { return s.values[name] }

// Set gives a secret a value.
func (s *FarmSecrets) Set(name string, value events.ID) ([]events.Event, error) {
	if err := SecretName.Check("name", name); err != nil {
		return nil, err
	}
	if _, there := s.values[name]; !there && len(s.values) >= MaxFarmSecrets {
		return nil, ErrFarmSecretMax
	}
	return one(events.FarmSecretSet{Name: name, Value: value})
}

// Remove takes a secret away.
func (s *FarmSecrets) Remove(name string) ([]events.Event, error) {
	value, there := s.values[name]
	if !there {
		return nil, ErrNoFarmSecret
	}
	return one(events.FarmSecretRemoved{Name: name, Value: value})
}
