package farm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
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
		return func(s *FarmSecrets) ([]events.Event, error) { return s.Set(name, value, nil) }
	}
	release := events.SecretScope{Jobs: []string{"publish"}, Repos: []events.ID{id(7)}, Labels: []string{"pool=release"}}
	scoped := events.FarmSecretScoped{Name: "NPM_TOKEN", Scope: release}
	scope := func(name string, value events.ID, to events.SecretScope) func(*FarmSecrets) ([]events.Event, error) {
		return func(s *FarmSecrets) ([]events.Event, error) { return s.Set(name, value, &to) }
	}
	remove := func(s *FarmSecrets) ([]events.Event, error) { return s.Remove("NPM_TOKEN") }
	specs := []spec[FarmSecrets]{
		{name: "a secret is set", when: set(npm.Name, npm.Value), then: []events.Event{npm}},
		{name: "again", given: []events.Event{npm}, when: set(again.Name, again.Value), then: []events.Event{again}},
		{name: "one too many", given: full, when: set(npm.Name, npm.Value), err: ErrFarmSecretMax},
		{name: "one that is there, of as many as there may be", given: full, when: set("S7", id(1)),
			then: []events.Event{events.FarmSecretSet{Name: "S7", Value: id(1)}}},
		{name: "with a scope", when: scope(npm.Name, npm.Value, release), then: []events.Event{npm, scoped}},
		{name: "a scope alone", given: []events.Event{npm}, when: scope(npm.Name, events.ID{}, release), then: []events.Event{scoped}},
		{name: "a value keeps the scope", given: []events.Event{npm, scoped}, when: set(again.Name, again.Value), then: []events.Event{again}},
		{name: "the same scope", given: []events.Event{npm, scoped}, when: scope(npm.Name, events.ID{}, release)},
		{name: "a scope ends", given: []events.Event{npm, scoped}, when: scope(npm.Name, events.ID{}, events.SecretScope{}),
			then: []events.Event{events.FarmSecretScoped{Name: "NPM_TOKEN", From: release}}},
		{name: "a scope ends with its secret", given: []events.Event{npm, scoped, gone, npm}, when: scope(npm.Name, events.ID{}, release),
			then: []events.Event{scoped}},
		{name: "a scope of nothing", when: scope(npm.Name, events.ID{}, release), err: ErrNoFarmSecret},
		{name: "a scope by what a machine says", given: []events.Event{npm},
			when: scope(npm.Name, events.ID{}, events.SecretScope{Labels: []string{"os=linux"}}),
			err:  fault.Field("scope.labels", "must not begin with os=, arch=, runner=, sandbox=: the service sets these")},
		{name: "one is removed", given: []events.Event{npm}, when: remove, then: []events.Event{gone}},
		{name: "twice", given: []events.Event{npm, gone}, when: remove, err: ErrNoFarmSecret},
	}
	for _, name := range []string{"", "npm", "1A", "A-B", "A B", "Ä", "A\n", strings.Repeat("A", 65)} {
		specs = append(specs, spec[FarmSecrets]{name: "no name: " + name, when: set(name, npm.Value), err: SecretName.Check("name", name)})
	}
	check(t, specs)
}

func TestScopesOfSecrets(t *testing.T) {
	repo := events.JobRepo{ID: id(7)}
	publish := events.JobSpec{Name: "publish", Repo: &repo, Requires: events.JobRequires{Labels: []string{"os=linux", "pool=release"}},
		Secrets: []string{"OTHER", "NPM_TOKEN"}}
	s := folded[FarmSecrets]([]events.Event{
		events.FarmSecretSet{Name: "OTHER", Value: id(94)}, events.FarmSecretSet{Name: "NPM_TOKEN", Value: id(95)},
		events.FarmSecretScoped{Name: "NPM_TOKEN",
			Scope: events.SecretScope{Jobs: []string{"publish"}, Repos: []events.ID{id(7)}, Labels: []string{"pool=release"}}},
	})
	require.Empty(t, s.Barred(publish))
	for name, change := range map[string]func(*events.JobSpec){
		"another name":           func(j *events.JobSpec) { j.Name = "test" },
		"another repository":     func(j *events.JobSpec) { j.Repo = &events.JobRepo{ID: id(8)} },
		"no repository":          func(j *events.JobSpec) { j.Repo = nil },
		"no label":               func(j *events.JobSpec) { j.Requires.Labels = []string{"os=linux"} },
		"the label of a machine": func(j *events.JobSpec) { j.Requires.Labels = []string{"machine:pool=release"} },
		"one label of several": func(j *events.JobSpec) {
			j.Requires = events.JobRequires{AnyOf: [][]string{{"pool=release"}, {"os=linux"}}}
		},
	} {
		job := publish
		change(&job)
		require.Equal(t, "NPM_TOKEN", s.Barred(job), name)
	}
	none := publish
	none.Secrets, none.Name = []string{"OTHER"}, "test"
	require.Empty(t, s.Barred(none))
}
