//go:build !linux

package pgserver

import (
	"errors"
	"os"
)

// chooseAccount rejects root: only Linux offers another account.
func chooseAccount(string) (account, error) {
	if os.Geteuid() == 0 {
		return account{}, errors.New("PostgreSQL does not run as root: start this as an ordinary user")
	}
	return currentAccount(), nil
}

func (a account) cannotEnter(string) bool { return false }
