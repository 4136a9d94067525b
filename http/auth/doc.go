// Package auth serves /api/auth: sign-in, sessions, and a person's side of
// workspaces. Paths, bodies, codes and statuses are those of the Better Auth
// project with its organization plugin, so that its browser client works
// unmodified. Each route is a thin row over the commands that /api/v1 uses.
//
// # Sign-in
//
// It is OAuth 2 with PKCE at a code host (social.go, provider.go). The state is 32
// random bytes; a row keeps it for ten minutes, under its hash, until it is taken up
// once, and a cookie signed with AUTH_SECRET binds it to the browser that began. For
// an hour more the row says where errors of that sign-in go. Each kind of host is
// asked for its own scopes, and a grant for more is not used. What the host says of a
// person counts only where it says that an address is verified, and then all such
// addresses count. An address is ASCII, with A–Z lowered and a domain in another
// script as its xn-- form (input.Email); nothing else is folded, so that what only
// looks alike is somebody else's, or no address. Addresses of other forms in early
// events stay readable and match nobody who signs in today. A person is found by the
// account at the host, then by a verified address; who is not found is made, with a
// personal workspace of their own, in one commit. Two browsers that do so at the same
// moment are settled by the global keys of addresses and accounts.
//
// # Sessions
//
// Sessions are rows under the hash of a random token; the cookie has the token and its
// signature. Each sign-in makes a new one, so a planted cookie stays worthless. They
// last seven days and slide once a day; of more than a hundred of one person the
// oldest end. They are not events, because nobody replays who was idle; sign-ins and
// sign-outs are, in the log of the personal workspace. A sign-out ends its sessions,
// and who leaves a workspace or is removed loses it from theirs, in the transaction
// that stores the event (sessions/endings.go).
//
// # Differences from Better Auth
//
// The browser client is driven in Chromium by make test-browser. refusals.go
// translates the refusals. The deliberate differences: bodies have details; unknown
// paths have a body; an accepted invitation cannot be flipped; expired ones are not
// offered; lists of a workspace's invitations have the newest hundred that are pending
// or expired; tokens of sessions are handles; an invitation whose sender could no
// longer send it is not found; a write from another site is cross_origin_refused as
// everywhere here; GET /providers, which says by what people sign in before they have a
// session, is ours; emails are always verified; query parameters that are empty or sent
// twice are refused with VALIDATION_ERROR; organizations have neither logo nor
// metadata: a logo, or metadata with anything in it, is refused rather than lost
// behind a 200, and answers show {} or null. test/testdata/*.http has each row and
// refusal as a recorded conversation.
package auth
