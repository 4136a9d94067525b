package executor

import (
	"cmp"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"svc/farm/runner/sandbox"
)

// Variables by which the machine says how programs reach others: proxies, of which programs read one case
// or the other, and the certificate authorities to trust, as paths.
var (
	proxyVariables     = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
	authorityVariables = []string{
		"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
	}
)

// A Network is the variables of the machine that git and steps get, by name.
type Network map[string]string

// NetworkOf returns the proxies and authorities in a program's variables. Each proxy is there in both
// cases, git gets the authorities of OpenSSL unless it has its own, and paths are absolute.
func NetworkOf(environ []string) Network {
	own := map[string]string{}
	for _, v := range environ {
		if name, value, _ := strings.Cut(v, "="); value != "" {
			own[name] = value
		}
	}
	n := Network{}
	set := func(name, value string) {
		if value != "" {
			n[name] = value
		}
	}
	for _, upper := range proxyVariables {
		lower := strings.ToLower(upper)
		set(upper, cmp.Or(own[upper], own[lower]))
		set(lower, cmp.Or(own[lower], own[upper]))
	}
	for _, name := range authorityVariables {
		set(name, absolutePaths(own[name]))
	}
	set("GIT_SSL_CAINFO", cmp.Or(n["GIT_SSL_CAINFO"], n["SSL_CERT_FILE"], n["CURL_CA_BUNDLE"]))
	folder, _, _ := strings.Cut(n["SSL_CERT_DIR"], ":")
	set("GIT_SSL_CAPATH", cmp.Or(n["GIT_SSL_CAPATH"], folder))
	return n
}

// absolutePaths returns a list of paths, separated by colons, with each made absolute.
func absolutePaths(list string) string {
	paths := filepath.SplitList(list)
	for i, p := range paths {
		if abs, err := filepath.Abs(p); err == nil {
			paths[i] = abs
		}
	}
	return strings.Join(paths, ":")
}

// without returns the variables as name=value, in order, except proxies that others name in either case.
func (n Network) without(others map[string]string) (env []string) {
	for name, value := range n {
		upper := strings.ToUpper(name)
		_, one := others[upper]
		_, other := others[strings.ToLower(name)]
		if !slices.Contains(proxyVariables, upper) || !one && !other {
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env
}

// authorities returns the files and folders of authorities.
func (n Network) authorities() (paths []string) {
	for _, name := range authorityVariables {
		paths = append(paths, filepath.SplitList(n[name])...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// secrets returns the passwords of proxies.
func (n Network) secrets() (list []string) {
	for name, address := range n {
		if !slices.Contains(proxyVariables, strings.ToUpper(name)) || strings.EqualFold(name, "NO_PROXY") {
			continue
		}
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		list = append(list, urlSecrets(address)...)
	}
	return list
}

// urlSecrets returns the password in a URL, alone and with its user, so that it is masked in the log. A
// user without a password is a token.
func urlSecrets(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return nil
	}
	password, _ := u.User.Password()
	if password == "" {
		return []string{u.User.Username()}
	}
	return []string{password, u.User.Username() + ":" + password}
}

// reachesOthers reports whether the job's steps have a network.
func (x *execution) reachesOthers() bool {
	return x.Spec.Sandbox.Kind != sandbox.Bubblewrap || x.Spec.Sandbox.Network == "host"
}
