//go:build !linux

package pgserver

import (
	"errors"
	"os"
)

// chooseAccount refuses root: only on Linux another account is found for it.
func chooseAccount(string) (account, error) {
	if os.Geteuid() == 0 {
		return account{}, errors.New("PostgreSQL does not run as root: start this as an ordinary user")
	}
	return ourselves(), nil
}

func (a account) barred(string) bool { return false }
