package aggregates

import (
	"maps"

	"svc/events"
	"svc/fault"
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
}

// Apply adds one event.
func (s *FarmSecrets) Apply(e events.Event, _ events.Actor) {
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

// Value returns the vault's id of a secret's value, or the zero ID if there is no such
// secret.
func (s *FarmSecrets) Value(name string) events.ID { return s.values[name] }

// Values returns the vault's ids of all values, by the names of their secrets.
func (s *FarmSecrets) Values() map[string]events.ID { return maps.Clone(s.values) }

// Set gives a secret a value, which replaces the one before.
func (s *FarmSecrets) Set(name string, value events.ID) ([]events.Event, error) {
	if err := SecretName.Check("name", name); err != nil {
		return nil, err
	}
	if _, there := s.values[name]; !there && len(s.values) >= MaxFarmSecrets {
		return nil, ErrFarmSecretMax
	}
	return oneEvent(events.FarmSecretSet{Name: name, Value: value})
}

// Remove removes a secret.
func (s *FarmSecrets) Remove(name string) ([]events.Event, error) {
	value, there := s.values[name]
	if !there {
		return nil, ErrNoFarmSecret
	}
	return oneEvent(events.FarmSecretRemoved{Name: name, Value: value})
}
