package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Arguments parses the command line of a program that takes flags alone, and whose
// environment is described by cfg. It answers -h, -help and help with both, on
// stdout, and whatever else it does not know with an error on stderr. done says that
// the program ends there, with status 0 or 2.
func Arguments(flags *flag.FlagSet, args []string, cfg any, stdout, stderr io.Writer) (status int, done bool) {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp), err == nil && flags.NArg() == 1 && flags.Arg(0) == "help":
		fmt.Fprintf(stdout, "Usage: %s [flags]\n\nFlags:\n  -help\n    \tprint this\n", flags.Name())
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		fmt.Fprint(stdout, "\nEnvironment:\n")
		_ = Reference(stdout, cfg) // whoever reads it has gone
		return 0, true
	case err != nil || flags.NArg() > 0: // which may hold a secret
		fmt.Fprintf(stderr, "%s: unknown arguments\nTry %[1]s -help.\n", flags.Name())
		return 2, true
	}
	return 0, false
}
