package aggregates

import (
	"fmt"
	"strings"
	"testing"

	"svc/events"
)

func TestFarmSecrets(t *testing.T) {
	npm := events.FarmSecretSet{Name: "NPM_TOKEN", Value: id(95)}
	again := events.FarmSecretSet{Name: "NPM_TOKEN", Value: id(96)}
	gone := events.FarmSecretRemoved{Name: "NPM_TOKEN", Value: id(95)}
	var full []events.Event
	for i := range MaxFarmSecrets {
		full = append(full, events.FarmSecretSet{Name: fmt.Sprint("S", i), Value: id(byte(i))})
	}
	set := func(name string, value events.ID) func(*FarmSecrets) ([]events.Event, error) {
		return func(s *FarmSecrets) ([]events.Event, error) { return s.Set(name, value) }
	}
	remove := func(s *FarmSecrets) ([]events.Event, error) { return s.Remove("NPM_TOKEN") }
	specs := []spec[FarmSecrets]{
		{name: "a secret is set", when: set(npm.Name, npm.Value), then: []events.Event{npm}},
		{name: "again", given: []events.Event{npm}, when: set(again.Name, again.Value), then: []events.Event{again}},
		{name: "one too many", given: full, when: set(npm.Name, npm.Value), err: ErrFarmSecretMax},
		{name: "one that is there, of as many as there may be", given: full, when: set("S7", id(1)),
			then: []events.Event{events.FarmSecretSet{Name: "S7", Value: id(1)}}},
		{name: "one is removed", given: []events.Event{npm}, when: remove, then: []events.Event{gone}},
		{name: "twice", given: []events.Event{npm, gone}, when: remove, err: ErrNoFarmSecret},
	}
	for _, name := range []string{"", "npm", "1A", "A-B", "A B", "Ä", "A\n", strings.Repeat("A", 65)} {
		specs = append(specs, spec[FarmSecrets]{name: "no name: " + name, when: set(name, npm.Value), err: SecretName.Check("name", name)})
	}
	check(t, specs)
}
