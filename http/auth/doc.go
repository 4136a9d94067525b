// Package auth serves /api/auth: sign-in, sessions, and people's workspaces. Paths, bodies, error
// codes and statuses are those of Better Auth with its organization plugin, so that its browser client
// works unmodified. The routes use the same commands as /api/v1.
//
// # Sign-in
//
// Sign-in is OAuth 2 with PKCE at a code host (social.go, provider.go). The state is 32 random bytes. A
// row stores its hash for ten minutes or until its first use, and a cookie signed with AUTH_SECRET binds
// it to the browser that began. For another hour the row still says where errors of that sign-in go.
//
// Each kind of host is asked for its own scopes, and a token with more is not used. Only addresses that
// the host has verified count, and all of them do. Addresses are ASCII, in lower case, with international
// domains in xn-- form (input.Email). Nothing else is folded, so that look-alikes are different or
// invalid addresses. Addresses of other forms in early events stay readable and match nobody.
//
// A person is found by the account at the host, then by a verified address. If there is none, they are
// registered with a personal workspace, in one commit. The global keys of addresses and accounts resolve
// races between browsers.
//
// # Sessions
//
// Sessions are rows keyed by the hash of a random token; the cookie contains the token and its
// signature. Each sign-in creates a session, so that a planted cookie is worthless. Sessions last seven
// days and are extended once a day; a person has at most a hundred, and the oldest end first. Sessions are
// not events, but sign-ins and sign-outs are, in the log of the personal workspace. The transaction that
// stores a sign-out deletes its sessions, and that of a member's removal clears the workspace from
// theirs (sessions/endings.go).
//
// # Differences from Better Auth
//
// make test-browser runs Better Auth's client in Chromium. refusals.go has the refusals in its words. The
// deliberate differences:
//
//   - Error bodies have details, and unknown paths have a body.
//   - An accepted invitation cannot be rejected. Expired invitations are not offered. An invitation whose
//     sender could no longer send it is not found.
//   - A workspace's invitations are the newest hundred that are pending or expired.
//   - The token of a session in a body is a handle, not the session's token.
//   - A write from another site fails with cross_origin_refused, as everywhere in this service.
//   - GET /providers is ours. It lists the ways to sign in.
//   - list-members sorts by createdAt or by name, and filters by one role (eq) only.
//   - E-mail addresses are always verified.
//   - Empty and repeated query parameters fail with VALIDATION_ERROR.
//   - Organizations have no logo and no metadata. Non-empty ones are refused; answers contain {} or null.
//
// test/testdata/*.http has a recorded conversation of each route and refusal.
package auth
