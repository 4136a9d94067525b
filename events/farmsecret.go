package events

// farmSecrets are values that jobs of the build farm receive by name.
var farmSecrets = Noun{
	Name: "farm_secret", Audience: Administrators,
	people: [][]decoder{
		decodersOf[FarmSecretSet](),
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

// FarmSecretRemoved says that a secret no longer exists.
type FarmSecretRemoved struct {
	Name  string `json:"name"`
	Value ID     `json:"valueId"` // its last value
}

func (FarmSecretRemoved) Kind() string              { return "farm_secret.removed" }
func (e FarmSecretRemoved) target(r *Record) Target { return Target{"farm_secret", r.Stream, e.Name} }
func (FarmSecretRemoved) changes(*Record) []Change  { return []Change{} }
