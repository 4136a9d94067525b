// Command svc-release packs and signs releases of svc-runner into the folder from which svc-rest
// serves them. make release builds the programs and calls it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"svc/farm/release"
	"svc/farm/wire"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, time.Now()); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "svc-release:", err)
		os.Exit(1)
	}
}

// run packs the programs named by args.
func run(args []string, out io.Writer, now time.Time) error {
	flags := flag.NewFlagSet("svc-release", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, "Usage: svc-release -dir FOLDER -key FILE [flags] OS/ARCH=PROGRAM...\n\n")
		flags.PrintDefaults()
	}
	dir := flags.String("dir", "", "`folder` of releases; made if there is none")
	key := flags.String("key", "", "`file` of the private key, Ed25519 in PEM; made if there is none")
	replace := flags.Bool("replace", false, "replace a release of the same version that has other programs, as in development")
	delay := flags.Duration("not-before", 0, "time from now that latest.json has as notBefore; runners do not update themselves yet")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *key == "" || flags.NArg() == 0 {
		return errors.New("-dir, -key and a program are missing; try -help")
	}
	builds, err := parseBuilds(flags.Args())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(*key), 0o700); err != nil {
		return err
	}
	signer, err := release.OpenKey(*key)
	if err != nil {
		return fmt.Errorf("open the key: %w", err)
	}
	pack := release.Pack
	if *replace {
		pack = release.Repack
	}
	latest := release.Latest{Version: release.Version, MinProtocol: wire.Version, NotBefore: now.Add(*delay)}
	err = pack(*dir, latest, builds, signer)
	switch {
	case errors.Is(err, release.ErrPacked):
		return fmt.Errorf("pack release %s: %w: raise the version in farm/release, or use -replace", release.Version, err)
	case err != nil:
		return fmt.Errorf("pack release %s: %w", release.Version, err)
	}
	if err := release.VerifyFolder(*dir, nil); err != nil {
		return fmt.Errorf("verify %s: %w", *dir, err)
	}
	fmt.Fprintf(out, "release %s of svc-runner is in %s\n", release.Version, *dir)
	return nil
}

func parseBuilds(args []string) (builds []release.Build, err error) {
	for _, arg := range args {
		platform, path, named := strings.Cut(arg, "=")
		goos, goarch, both := strings.Cut(platform, "/")
		if !named || !both || path == "" {
			return nil, fmt.Errorf("%q is not of the form linux/amd64=path", arg)
		}
		builds = append(builds, release.Build{OS: goos, Arch: goarch, Path: path})
	}
	return builds, nil
}
