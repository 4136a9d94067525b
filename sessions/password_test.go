package sessions

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"svc/events"
	"svc/test/pgtest"
)

// give sets a person's password with a cheap hash.
func give(t *testing.T, db *pgxpool.Pool, user events.ID, password string) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	_, err = db.Exec(testContext(t), `insert into passwords (user_id, hash) values ($1, $2)`, user, string(hash))
	require.NoError(t, err)
}

func TestCheckPassword(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	zoe, home := register(t, db, "zoe", "zoe@acme.example", "zoe.brandt@mail.example")
	mel, _ := register(t, db, "mel", "mel@acme.example")
	register(t, db, "yan", "yan@acme.example") // has no password
	give(t, db, zoe, "demonstration")
	give(t, db, mel, "another")

	for name, c := range map[string]struct {
		email, password string
		ok              bool
	}{
		"the right one":               {"zoe@acme.example", "demonstration", true},
		"by another of her addresses": {"zoe.brandt@mail.example", "demonstration", true},
		"by an address in any case":   {"Zoe@ACME.example", "demonstration", true},
		"in another case":             {"zoe@acme.example", "Demonstration", false},
		"none":                        {"zoe@acme.example", "", false},
		"somebody else's":             {"zoe@acme.example", "another", false},
		"the one for nobody":          {"nobody@acme.example", "nobody has this password", false},
		"a person who has none":       {"yan@acme.example", "nobody has this password", false},
	} {
		t.Run(name, func(t *testing.T) {
			user, workspace, ok, err := Passwords{DB: db}.Check(testContext(t), c.email, c.password)
			require.NoError(t, err)
			require.Equal(t, c.ok, ok)
			if ok {
				require.Equal(t, zoe, user)
				require.Equal(t, home, workspace)
			}
		})
	}
}

// A refusal takes as long for a person who does not exist, because the dummy hash costs as
// much as a real one.
func TestRefusalTakesAsLongForUnknownPerson(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	user, _ := register(t, db, "zoe", "zoe@acme.example")
	give(t, db, user, "first")
	require.NoError(t, Passwords{DB: db}.Set(testContext(t), user, "second"))

	var hash string
	require.NoError(t, db.QueryRow(testContext(t), `select hash from passwords`).Scan(&hash))
	require.NoError(t, bcrypt.CompareHashAndPassword([]byte(hash), []byte("second")))
	cost, err := bcrypt.Cost([]byte(hash))
	require.NoError(t, err)
	require.GreaterOrEqual(t, cost, 10)
	nobodys, err := bcrypt.Cost(dummyHash())
	require.NoError(t, err)
	require.Equal(t, cost, nobodys)
}

func TestPasswordThatCannotBeHashedIsNotNamed(t *testing.T) {
	t.Parallel()
	user := events.NewID(noon)
	err := Passwords{DB: pgtest.New(t)}.Set(testContext(t), user, strings.Repeat("secret", 20))
	require.ErrorContains(t, err, user.String())
	require.NotContains(t, err.Error(), "secret")
}
