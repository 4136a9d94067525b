package events

// users are people, each with a stream in the log of their personal workspace.
var users = Noun{
	Name: "user", Audience: Administrators,
	kinds: [][]decoder{
		of[UserRegistered](),
		of[UserAccountLinked](),
		of[UserEmailsVerified](),
		of[UserSignedIn](),
		of[UserSignedOut](),
	},
}

// UserRegistered says that a person signed in for the first time. It is the
// first event of the personal workspace that was made for them.
type UserRegistered struct {
	User      ID       `json:"userId"`
	Name      string   `json:"name"`
	Emails    []string `json:"emails"` // verified, as package input has them, the primary one first
	AvatarURL string   `json:"avatarUrl,omitempty"`
}

func (UserRegistered) Kind() string               { return "user.registered" }
func (e UserRegistered) target(r *Record) Target  { return Target{"user", r.Stream, first(e.Emails)} }
func (UserRegistered) changes(r *Record) []Change { return r.stated() }

// UserEmailsVerified says that the code host named other verified addresses
// than before.
type UserEmailsVerified struct {
	User   ID       `json:"userId"`
	From   []string `json:"from"`
	Emails []string `json:"emails"` // the primary one first
}

func (UserEmailsVerified) Kind() string { return "user.emails_verified" }
func (e UserEmailsVerified) target(r *Record) Target {
	return Target{"user", r.Stream, first(e.Emails)}
}
func (e UserEmailsVerified) changes(*Record) []Change { return []Change{{"emails", e.From, e.Emails}} }

// UserSignedIn says that a person signed in in a browser.
type UserSignedIn struct {
	User    ID     `json:"userId"`
	Email   string `json:"email"`
	Session ID     `json:"sessionId"`
	Method  string `json:"method"` // the provider, or "email"
}

func (UserSignedIn) Kind() string               { return "user.signed_in" }
func (e UserSignedIn) target(r *Record) Target  { return Target{"user", r.Stream, e.Email} }
func (UserSignedIn) changes(r *Record) []Change { return r.stated() }

// UserSignedOut says that sessions of a person ended by their own word.
type UserSignedOut struct {
	User     ID   `json:"userId"`
	Sessions []ID `json:"sessionIds"`
}

func (UserSignedOut) Kind() string               { return "user.signed_out" }
func (UserSignedOut) target(r *Record) Target    { return Target{"user", r.Stream, ""} }
func (UserSignedOut) changes(r *Record) []Change { return r.stated() }

// UserAccountLinked says that a person signs in by an account at a provider.
type UserAccountLinked struct {
	User     ID     `json:"userId"`
	Provider string `json:"provider"`
	Account  string `json:"accountId"` // at the provider
	Login    string `json:"login"`
}

func (UserAccountLinked) Kind() string               { return "user.account_linked" }
func (UserAccountLinked) target(r *Record) Target    { return Target{"user", r.Stream, ""} }
func (UserAccountLinked) changes(r *Record) []Change { return r.stated() }

// Key tells the account apart from all others.
func (e UserAccountLinked) Key() string { return e.Provider + "/" + e.Account }

// first returns the primary one of addresses. Damaged data may have none.
func first(emails []string) string {
	if len(emails) == 0 {
		return ""
	}
	return emails[0]
}
