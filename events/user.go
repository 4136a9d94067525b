package events

// UserRegistered says that a person signed in for the first time. It is the
// first event of the personal workspace that was made for them.
type UserRegistered struct {
	User      ID       `json:"userId"`
	Name      string   `json:"name"`
	Emails    []string `json:"emails"` // verified, as package input has them, the primary one first
	AvatarURL string   `json:"avatarUrl,omitempty"`
}

func (UserRegistered) Kind() string { return "user.registered" }

// UserEmailsVerified says that the code host named other verified addresses
// than before.
type UserEmailsVerified struct {
	User   ID       `json:"userId"`
	From   []string `json:"from"`
	Emails []string `json:"emails"` // the primary one first
}

// UserSignedIn says that a person signed in in a browser.
type UserSignedIn struct {
	User    ID     `json:"userId"`
	Email   string `json:"email"`
	Session ID     `json:"sessionId"`
	Method  string `json:"method"` // the provider, or "email"
}

// UserSignedOut says that sessions of a person ended by their own word.
type UserSignedOut struct {
	User     ID   `json:"userId"`
	Sessions []ID `json:"sessionIds"`
}

func (UserEmailsVerified) Kind() string { return "user.emails_verified" }
func (UserSignedIn) Kind() string       { return "user.signed_in" }
func (UserSignedOut) Kind() string      { return "user.signed_out" }

// UserAccountLinked says that a person signs in by an account at a provider.
type UserAccountLinked struct {
	User     ID     `json:"userId"`
	Provider string `json:"provider"`
	Account  string `json:"accountId"` // at the provider
	Login    string `json:"login"`
}

// Key tells the account apart from all others.
func (e UserAccountLinked) Key() string { return e.Provider + "/" + e.Account }

func (UserAccountLinked) Kind() string { return "user.account_linked" }
