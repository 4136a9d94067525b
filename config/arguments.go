package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// ParseArguments parses the command line of a program that takes only flags and is
// configured by cfg from the environment. For -h, -help and help it prints both to stdout;
// for unknown arguments it prints an error to stderr. If done is true, the program has to
// exit with status, 0 or 2.
func ParseArguments(flags *flag.FlagSet, args []string, cfg any, stdout, stderr io.Writer) (status int, done bool) {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp), err == nil && flags.NArg() == 1 && flags.Arg(0) == "help":
		fmt.Fprintf(stdout, "Usage: %s [flags]\n\nFlags:\n  -help\n    \tprint this\n", flags.Name())
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		fmt.Fprint(stdout, "\nEnvironment:\n")
		_ = Reference(stdout, cfg) // an error means that nobody reads stdout any more
		return 0, true
	case err != nil || flags.NArg() > 0: // not quoted, because they may contain a secret
		fmt.Fprintf(stderr, "%s: unknown arguments\nTry %[1]s -help.\n", flags.Name())
		return 2, true
	}
	return 0, false
}
