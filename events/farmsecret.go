package events

// farmSecrets are values that jobs of the build farm are given by name.
var farmSecrets = Noun{
	Name: "farm_secret", Audience: Administrators,
	kinds: [][]decoder{
		of[FarmSecretSet](),
		of[FarmSecretRemoved](),
	},
}

// FarmSecretStream is the stream of a workspace that says which secrets its jobs can be
// given. It is a UUID of version 7, like every id.
var FarmSecretStream = ID{6: 7 << 4, 8: 0b10 << 6, 15: 3}

// FarmSecretSet says that a secret has a value, in place of the one before. Value names
// it in the vault.
type FarmSecretSet struct {
	Name  string `json:"name"`
	Value ID     `json:"valueId"`
}

func (FarmSecretSet) Kind() string              { return "farm_secret.set" }
func (e FarmSecretSet) target(r *Record) Target { return Target{"farm_secret", r.Stream, e.Name} }
func (FarmSecretSet) changes(*Record) []Change  { return []Change{} }

// FarmSecretRemoved says that there is no such secret any more.
type FarmSecretRemoved struct {
	Name  string `json:"name"`
	Value ID     `json:"valueId"` // that it had
}

func (FarmSecretRemoved) Kind() string              { return "farm_secret.removed" }
func (e FarmSecretRemoved) target(r *Record) Target { return Target{"farm_secret", r.Stream, e.Name} }
func (FarmSecretRemoved) changes(*Record) []Change  { return []Change{} }
