package events

import "time"

// authorities are the keys that sign the certificates of a workspace's runners.
var authorities = Noun{
	Name: "authority", Audience: Administrators, NamesTarget: true,
	people: [][]decoder{
		decodersOf[AuthorityCreated](),
		decodersOf[AuthorityRetired](),
	},
}

// AuthorityStream is the stream of a workspace that holds its authorities. It is a version
// 7 UUID, like every id.
var AuthorityStream = ID{6: 7 << 4, 8: 0b10 << 6, 15: 2}

// AuthorityCreated says that the workspace got a key which signs its runners' certificates.
// The key itself is in the vault.
type AuthorityCreated struct {
	Authority   ID        `json:"authorityId"`
	Certificate string    `json:"certificate"` // PEM
	NotAfter    time.Time `json:"notAfter"`
}

func (AuthorityCreated) Kind() string            { return "authority.created" }
func (e AuthorityCreated) target(*Record) Target { return Target{"authority", e.Authority, ""} }
func (e AuthorityCreated) changes(*Record) []Change {
	return []Change{{"notAfter", nil, e.NotAfter}}
}

// AuthorityRetired says that certificates signed by the authority are no longer accepted.
type AuthorityRetired struct {
	Authority ID     `json:"authorityId"`
	Reason    string `json:"reason"`
}

func (AuthorityRetired) Kind() string            { return "authority.retired" }
func (e AuthorityRetired) target(*Record) Target { return Target{"authority", e.Authority, ""} }
func (e AuthorityRetired) changes(*Record) []Change {
	return []Change{{"status", "active", "retired"}, {"reason", nil, e.Reason}}
}
