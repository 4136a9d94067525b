package people

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDerivedFieldsAreStable(t *testing.T) {
	t.Parallel()
	p, err := Complete(Person{Emails: []Email{{Address: "Ada.L+x@acme.example"}}})
	require.NoError(t, err)
	require.Equal(t, "ada-l-x", p.Login)
	again, err := Complete(Person{Name: "Other", Emails: []Email{{Address: "ada.l+x@acme.example", Verified: true}}})
	require.NoError(t, err)
	require.Equal(t, p.ID, again.ID)
	require.Greater(t, p.ID, int64(1)<<32)
	require.Less(t, p.ID, int64(1)<<53)
	other, err := Complete(Person{Emails: []Email{{Address: "ada@acme.example"}}})
	require.NoError(t, err)
	require.NotEqual(t, p.ID, other.ID)
}

func TestAddedPeopleAreBounded(t *testing.T) {
	t.Parallel()
	d, err := NewDirectory([]Person{{ID: 1, Login: "ada"}})
	require.NoError(t, err)
	for i := range maxAdded + 1 {
		_, err := d.Add("N", fmt.Sprintf("n%d@new.example", i), true)
		require.NoError(t, err)
	}
	require.Len(t, d.All(), 1+maxAdded)
	for login, want := range map[string]bool{"ada": true, "n0": false, "n1": true, "n100": true} {
		_, ok := d.ByLogin(login)
		require.Equal(t, want, ok, login)
	}
}
