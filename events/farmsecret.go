package events

import "slices"

// farmSecrets are values that jobs of the build farm receive by name.
var farmSecrets = Noun{
	Name: "farm_secret", Audience: Administrators,
	people: [][]decoder{
		decodersOf[FarmSecretSet](),
		decodersOf[FarmSecretScoped](),
		decodersOf[FarmSecretRemoved](),
	},
}

// FarmSecretStream is the stream of a workspace that records its jobs' secrets. It is a
// version 7 UUID, like every id.
var FarmSecretStream = ID{6: 7 << 4, 8: 0b10 << 6, 15: 3}

// FarmSecretSet says that a secret got a new value. Value is the value's id in the vault.
type FarmSecretSet struct {
	Name  string `json:"name"`
	Value ID     `json:"valueId"`
}

func (FarmSecretSet) Kind() string              { return "farm_secret.set" }
func (e FarmSecretSet) target(r *Record) Target { return Target{"farm_secret", r.Stream, e.Name} }
func (FarmSecretSet) changes(*Record) []Change  { return []Change{} }

// FarmSecretScoped says that other jobs than before may use a secret.
type FarmSecretScoped struct {
	Name  string      `json:"name"`
	Scope SecretScope `json:"scope"`
	From  SecretScope `json:"from"`
}

func (FarmSecretScoped) Kind() string              { return "farm_secret.scoped" }
func (e FarmSecretScoped) target(r *Record) Target { return Target{"farm_secret", r.Stream, e.Name} }
func (e FarmSecretScoped) changes(*Record) []Change {
	return differingFields(e.From, e.Scope)
}

// A SecretScope says which jobs may use a secret: those that have one of the names, are of one of the repositories, and
// require all of the labels, so that only runners get it to which a person gave them. An empty list restricts nothing.
type SecretScope struct {
	Jobs   []string `json:"jobs,omitempty"`
	Repos  []ID     `json:"repos,omitempty"`
	Labels []string `json:"labels,omitempty"`
}

// Allows reports whether a job may use the secret.
func (s SecretScope) Allows(job JobSpec) bool {
	switch {
	case len(s.Jobs) > 0 && !slices.Contains(s.Jobs, job.Name):
		return false
	case len(s.Repos) > 0 && (job.Repo == nil || !slices.Contains(s.Repos, job.Repo.ID)):
		return false
	}
	return !slices.ContainsFunc(s.Labels, func(l string) bool { return !slices.Contains(job.Requires.Labels, l) })
}

// Equal reports whether both scopes are the same.
func (s SecretScope) Equal(o SecretScope) bool {
	return slices.Equal(s.Jobs, o.Jobs) && slices.Equal(s.Repos, o.Repos) && slices.Equal(s.Labels, o.Labels)
}

// FarmSecretRemoved says that a secret no longer exists.
type FarmSecretRemoved struct {
	Name  string `json:"name"`
	Value ID     `json:"valueId"` // its last value
}

func (FarmSecretRemoved) Kind() string              { return "farm_secret.removed" }
func (e FarmSecretRemoved) target(r *Record) Target { return Target{"farm_secret", r.Stream, e.Name} }
func (FarmSecretRemoved) changes(*Record) []Change  { return []Change{} }
