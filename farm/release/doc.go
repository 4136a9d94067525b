// Package release packs, signs and verifies the releases of svc-runner.
//
// A folder of releases has
//
//	latest.json                            the version that new runners install
//	latest.json.sig                        Ed25519 over "svc-runner latest.json", a newline and its bytes, in base64
//	release.pub                            the public keys, a line each
//	<version>/svc-runner_<os>_<arch>.gz    the program
//	<version>/SHA256SUMS                   as sha256sum writes it in the folder of releases
//	<version>/SHA256SUMS.sig               Ed25519 over the bytes of SHA256SUMS, in base64
//
// The names in SHA256SUMS begin with the version, so that the sums of an old release
// cannot be passed off as those of a new one. What was signed once stays signed: whoever
// can write to the folder can put back a whole release, and the latest.json, that were
// there before. A machine that has a later one refuses that, a new one cannot know.
package release

import (
	"fmt"
	"regexp"

	"golang.org/x/mod/semver"
)

// Version is the version of svc-runner that this source is.
const Version = "0.39.0"

// The names in a folder of releases.
const (
	LatestFile          = "latest.json"
	LatestSignatureFile = "latest.json.sig"
	KeysFile            = "release.pub"
	SumsFile            = "SHA256SUMS"
	SignatureFile       = "SHA256SUMS.sig"
)

// The most that is read of each.
const (
	maxText    = 64 << 10
	maxProgram = 256 << 20
)

var (
	platform = regexp.MustCompile(`^[a-z0-9]{1,16}$`)
	program  = regexp.MustCompile(`^svc-runner_[a-z0-9]{1,16}_[a-z0-9]{1,16}\.gz$`)
	number   = regexp.MustCompile(`^[0-9][0-9A-Za-z.-]{0,63}$`)
)

// Name returns the name of the program for an operating system and an architecture,
// as Go calls them.
func Name(goos, goarch string) string { return fmt.Sprintf("svc-runner_%s_%s.gz", goos, goarch) }

// IsProgram reports whether name has the form of [Name].
func IsProgram(name string) bool { return program.MatchString(name) }

// IsVersion reports whether text is a version, such as 1.2.3 or 1.3.0-rc.1.
func IsVersion(text string) bool {
	return number.MatchString(text) && semver.Canonical("v"+text) == "v"+text
}

// Compare returns -1, 0 or 1 as version a is before b, the same, or after it.
func Compare(a, b string) int { return semver.Compare("v"+a, "v"+b) }
