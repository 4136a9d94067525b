package pgserver

import "syscall"

// account is the user as which the programs run. PostgreSQL refuses to run as root, so root uses
// another account.
type account struct {
	attributes func() *syscall.SysProcAttr
	// own gives ownership of a folder and its contents to the account.
	own func(folder string) error
}

// currentAccount is the account of an ordinary user.
func currentAccount() account {
	return account{attributes: childAttributes, own: func(string) error { return nil }}
}
