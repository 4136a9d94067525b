package pgserver

import "syscall"

// account is who the programs run as. PostgreSQL refuses to run as root, so
// for root it is someone else.
type account struct {
	attributes func() *syscall.SysProcAttr
	// own hands a folder and all in it to the account.
	own func(folder string) error
}

// ourselves is the account of an ordinary user.
func ourselves() account {
	return account{attributes: childAttributes, own: func(string) error { return nil }}
}
