package main

// demo is what svc-db -seed=development writes about the demonstration data.
type demo struct {
	People          []person  `json:"people"`
	ServiceAccounts []account `json:"serviceAccounts"`
}

// A person can sign in by e-mail address and password.
type person struct {
	Name          string `json:"name"`
	Email         string `json:"email"`
	Password      string `json:"password"`
	Role          string `json:"role"`
	WorkspaceID   string `json:"workspaceId"`
	WorkspaceSlug string `json:"workspaceSlug"`
}

// An account is a service account with its token.
type account struct {
	Name          string   `json:"name"`
	Token         string   `json:"token"`
	Scopes        []string `json:"scopes"`
	WorkspaceID   string   `json:"workspaceId"`
	WorkspaceSlug string   `json:"workspaceSlug"`
}

const demoFile = "demo.json"

// noDemo returns a demo with empty lists, which JSON encodes as [].
func noDemo() demo { return demo{People: []person{}, ServiceAccounts: []account{}} }

// demo reads demo.json and reports whether it exists.
func (f *folder) demo() (demo, bool, error) {
	d := noDemo()
	found, err := f.read(demoFile, &d)
	return d, found, err
}
