package events

// users are people, each with a stream in the log of their personal workspace.
var users = Noun{
	Name: "user", Audience: Administrators,
	people: [][]decoder{
		decodersOf[UserRegistered](),
		decodersOf[UserAccountLinked](),
		decodersOf[UserEmailsVerified](),
		decodersOf[UserSignedIn](),
		decodersOf[UserSignedOut](),
	},
}

// UserRegistered says that a person signed in for the first time. It is the first event of
// their personal workspace.
type UserRegistered struct {
	User      ID       `json:"userId"`
	Name      string   `json:"name"`
	Emails    []string `json:"emails"` // verified, normalized by package input, the primary one first
	AvatarURL string   `json:"avatarUrl,omitempty"`
}

func (UserRegistered) Kind() string { return "user.registered" }
func (e UserRegistered) target(r *Record) Target {
	return Target{"user", r.Stream, primaryEmail(e.Emails)}
}
func (UserRegistered) changes(r *Record) []Change { return r.allFields() }

// UserEmailsVerified says that the code host reported a different set of verified
// addresses.
type UserEmailsVerified struct {
	User   ID       `json:"userId"`
	From   []string `json:"from"`
	Emails []string `json:"emails"` // the primary one first
}

func (UserEmailsVerified) Kind() string { return "user.emails_verified" }
func (e UserEmailsVerified) target(r *Record) Target {
	return Target{"user", r.Stream, primaryEmail(e.Emails)}
}
func (e UserEmailsVerified) changes(*Record) []Change { return []Change{{"emails", e.From, e.Emails}} }

// UserSignedIn says that a person signed in with a browser.
type UserSignedIn struct {
	User    ID     `json:"userId"`
	Email   string `json:"email"`
	Session ID     `json:"sessionId"`
	Method  string `json:"method"` // the provider, or "email"
}

func (UserSignedIn) Kind() string               { return "user.signed_in" }
func (e UserSignedIn) target(r *Record) Target  { return Target{"user", r.Stream, e.Email} }
func (UserSignedIn) changes(r *Record) []Change { return r.allFields() }

// UserSignedOut says that a person ended sessions of their own.
type UserSignedOut struct {
	User     ID   `json:"userId"`
	Sessions []ID `json:"sessionIds"`
}

func (UserSignedOut) Kind() string               { return "user.signed_out" }
func (UserSignedOut) target(r *Record) Target    { return Target{"user", r.Stream, ""} }
func (UserSignedOut) changes(r *Record) []Change { return r.allFields() }

// UserAccountLinked says that a person can sign in with an account at a provider.
type UserAccountLinked struct {
	User     ID     `json:"userId"`
	Provider string `json:"provider"`
	Host     string `json:"host,omitempty"` // the provider's address; "" in events of versions before 0.39
	Account  string `json:"accountId"`      // at the host, whose ids are not those of another one
	Login    string `json:"login"`
}

func (UserAccountLinked) Kind() string               { return "user.account_linked" }
func (UserAccountLinked) target(r *Record) Target    { return Target{"user", r.Stream, ""} }
func (UserAccountLinked) changes(r *Record) []Change { return r.allFields() }

// Key identifies the account among those of all providers and hosts.
func (e UserAccountLinked) Key() string {
	if e.Host == "" {
		return e.Provider + "/" + e.Account
	}
	return e.Provider + "/" + e.Host + "/" + e.Account
}

// WithoutHost returns the event as versions before 0.39 would have appended it.
func (e UserAccountLinked) WithoutHost() UserAccountLinked {
	e.Host = ""
	return e
}

// primaryEmail returns the primary address. Damaged data may have none.
func primaryEmail(emails []string) string {
	if len(emails) == 0 {
		return ""
	}
	return emails[0]
}
