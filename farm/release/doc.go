// Package release packs, signs and verifies releases of svc-runner.
//
// A folder of releases has
//
//	latest.json                            the version that new runners install
//	latest.json.sig                        Ed25519 over "svc-runner latest.json", a newline and its bytes, in base64
//	release.pub                            the public keys, one per line
//	<version>/svc-runner_<os>_<arch>.gz    the program
//	<version>/SHA256SUMS                   as sha256sum run in the folder of releases writes it
//	<version>/SHA256SUMS.sig               Ed25519 over the bytes of SHA256SUMS, in base64
//	.pack.lock                             locked by the process that packs
//
// The names in SHA256SUMS begin with the version, so that the sums of an old release cannot be
// passed off as those of a new one. Signatures do not expire: whoever can write to the folder can
// restore an earlier release together with its latest.json. A machine with a later version refuses
// it, but a new machine cannot notice.
package release

import (
	"fmt"
	"regexp"

	"golang.org/x/mod/semver"
)

// Version is the version of svc-runner in this source tree.
const Version = "0.39.0"

// File names in a folder of releases.
const (
	LatestFile          = "latest.json"
	LatestSignatureFile = "latest.json.sig"
	KeysFile            = "release.pub"
	SumsFile            = "SHA256SUMS"
	SignatureFile       = "SHA256SUMS.sig"
)

// Largest sizes in bytes that are read.
const (
	maxText    = 64 << 10
	maxProgram = 256 << 20
)

var (
	platformPattern = regexp.MustCompile(`^[a-z0-9]{1,16}$`)
	programPattern  = regexp.MustCompile(`^svc-runner_[a-z0-9]{1,16}_[a-z0-9]{1,16}\.gz$`)
	versionPattern  = regexp.MustCompile(`^[0-9][0-9A-Za-z.-]{0,63}$`)
)

// Name returns the file name of the program for an operating system and an architecture, as Go
// names them.
func Name(goos, goarch string) string { return fmt.Sprintf("svc-runner_%s_%s.gz", goos, goarch) }

// IsProgram reports whether name has the form of [Name].
func IsProgram(name string) bool { return programPattern.MatchString(name) }

// IsVersion reports whether text is a version, such as 1.2.3 or 1.3.0-rc.1.
func IsVersion(text string) bool {
	return versionPattern.MatchString(text) && semver.Canonical("v"+text) == "v"+text
}

// Compare returns -1 if version a is before b, 0 if they are equal, and 1 if a is after b.
func Compare(a, b string) int { return semver.Compare("v"+a, "v"+b) }
