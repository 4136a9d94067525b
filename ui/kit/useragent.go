package kit

import "strings"

var (
	knownPrograms = []struct{ mark, name, version string }{ // Edge and Opera also claim to be Chrome, and Chrome to be Safari
		{"Edg/", "Edge", "Edg/"}, {"OPR/", "Opera", "OPR/"}, {"Firefox/", "Firefox", "Firefox/"}, {"Chrome/", "Chrome", "Chrome/"},
		{"Safari/", "Safari", "Version/"}, {"curl/", "curl", "curl/"},
	}
	knownSystems = []struct{ mark, name string }{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Mac OS X", "macOS"}, {"Windows", "Windows"}, {"Linux", "Linux"},
	}
)

// UserAgent returns the program in a User-Agent header, such as Firefox, its major version, and the
// operating system. Each is "" if it is not known.
func UserAgent(header string) (program, version, system string) {
	for _, known := range knownPrograms {
		if strings.Contains(header, known.mark) {
			program = known.name
			_, rest, _ := strings.Cut(header, known.version)
			version = rest[:strings.IndexFunc(rest+" ", func(r rune) bool { return r < '0' || r > '9' })]
			break
		}
	}
	for _, known := range knownSystems {
		if strings.Contains(header, known.mark) {
			return program, version, known.name
		}
	}
	return program, version, ""
}
