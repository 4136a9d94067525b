package auth

import (
	"time"

	"svc/events"
	"svc/sessions"
)

type user struct {
	ID            string  `json:"id"`
	Name          string  `json:"name"`
	Email         string  `json:"email"`
	EmailVerified bool    `json:"emailVerified"`
	Image         *string `json:"image"`
	CreatedAt     string  `json:"createdAt"`
	UpdatedAt     string  `json:"updatedAt"`
}

// newUser describes the person of a session. Only verified addresses are kept.
func newUser(s sessions.Session) user {
	u := user{ID: s.User.String(), Name: s.Name, Email: s.Email, EmailVerified: true, CreatedAt: at(s.RegisteredAt), UpdatedAt: at(s.RegisteredAt)}
	if s.AvatarURL != "" {
		u.Image = &s.AvatarURL
	}
	return u
}

type session struct {
	ID                   string  `json:"id"`
	Token                string  `json:"token"` // a handle; the real one is only in the cookie
	UserID               string  `json:"userId"`
	ExpiresAt            string  `json:"expiresAt"`
	CreatedAt            string  `json:"createdAt"`
	UpdatedAt            string  `json:"updatedAt"`
	IPAddress            string  `json:"ipAddress"`
	UserAgent            string  `json:"userAgent"`
	ActiveOrganizationID *string `json:"activeOrganizationId"`
}

func newSession(s sessions.Session) session {
	return session{
		ID: s.ID.String(), Token: s.ID.String(), UserID: s.User.String(),
		ExpiresAt: at(s.ExpiresAt), CreatedAt: at(s.CreatedAt), UpdatedAt: at(s.UpdatedAt),
		IPAddress: s.IP, UserAgent: s.UserAgent, ActiveOrganizationID: text(s.Active),
	}
}

func text(id *events.ID) *string {
	if id == nil {
		return nil
	}
	s := id.String()
	return &s
}

// at writes a time with exactly three digits of a second: the client misreads
// any other number of them.
func at(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
