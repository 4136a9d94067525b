package events

// UserRegistered says that a person signed in for the first time. It is the
// first event of the personal workspace that was made for them.
type UserRegistered struct {
	User      ID       `json:"userId"`
	Name      string   `json:"name"`
	Emails    []string `json:"emails"` // verified, lower case, the primary one first
	AvatarURL string   `json:"avatarUrl,omitempty"`
}

func (UserRegistered) Kind() string { return "user.registered" }
