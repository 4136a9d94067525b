package runs

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"svc/events"
	"svc/fault"
	"svc/input"
)

var errRepoURL = fault.Field("url", "must be the address of a repository, such as https://github.com/acme/web")

// parseRepo returns name and addresses of the repository at an address. kind may be empty. With a name, the address
// of a repository that is not git alone may be that of its host's interface. Addresses of this machine and plain HTTP are
// refused unless local is set.
func parseRepo(kind events.HostKind, name, address string, local bool) (string, events.RepoHost, error) {
	if kind == "" {
		kind = events.HostGitHub
	}
	u, err := repoURL(address, local)
	if err != nil {
		return "", events.RepoHost{}, err
	}
	base, path := input.Origin(u), strings.Trim(u.Path, "/")
	named := strings.TrimSuffix(path, ".git")
	if kind == events.HostGit {
		if name == "" {
			name = named
		}
		return name, events.RepoHost{Kind: kind, Clone: base + "/" + path}, nil
	}
	host := events.RepoHost{Kind: kind}
	api, byAPI := "", name != "" && name != named
	switch {
	case kind == events.HostGitea:
		base, name = giteaSite(base, path, name)
		api = base + "/api/v1"
	case base == "https://api.github.com" && byAPI:
		base, api = "https://github.com", base
	case byAPI:
		api = strings.TrimSuffix(base+"/"+path, "/")
	case base == "https://github.com":
		api, name = "https://api.github.com", named
	default:
		api, name = base+"/api/v3", named
	}
	switch {
	case byAPI && !repoName.MatchString(name):
		return "", events.RepoHost{}, fault.Field("name", "must be the name of the repository with its owner, such as acme/web")
	case strings.Count(name, "/") != 1:
		return "", events.RepoHost{}, errRepoURL
	}
	host.API, host.Web, host.Clone = api, base+"/"+name, base+"/"+name+".git"
	return name, host, nil
}

// giteaSite returns the address of a Gitea, which may be below a path, and the name of the repository.
func giteaSite(origin, path, name string) (site, repo string) {
	if named := strings.TrimSuffix(path, ".git"); name == "" || strings.HasSuffix("/"+named, "/"+name) {
		parts := strings.Split(named, "/")
		name = strings.Join(parts[max(len(parts)-2, 0):], "/")
		path = strings.TrimSuffix(named, name)
	}
	return strings.TrimSuffix(origin+"/"+strings.TrimSuffix(path, "api/v1"), "/"), name
}

// repoName matches the name of a repository with its owner.
var repoName = regexp.MustCompile(`^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$`)

// repoURL parses an address that people give, also without scheme.
func repoURL(address string, local bool) (*url.URL, error) {
	address = strings.TrimSpace(address)
	if !strings.Contains(address, "://") && !strings.Contains(address, "@") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, errRepoURL
	case u.Scheme != "https" && (u.Scheme != "http" || !local):
		return nil, fault.Field("url", "must begin with https://")
	case u.User != nil:
		return nil, fault.Field("url", "must not hold a user or a password: send the token as credential")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fault.Field("url", "must not have a query")
	case isLocal(u.Hostname()) && !local:
		return nil, fault.Field("url", "must not be an address of the service's own machine or network link")
	}
	return u, nil
}

// isLocal reports whether a host's name or address is one of the machine itself. Names that only lead to such an address
// are for the engine to refuse, which connects.
func isLocal(host string) bool {
	host = strings.TrimSuffix(input.Lower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	address = address.Unmap()
	return address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsLinkLocalMulticast() || address.IsUnspecified() ||
		address.IsMulticast()
}

// sameSite returns found if it is at the same origin as known, and known otherwise: what receives a credential is
// what a person named, whatever a host answers.
func sameSite(known, found string) string {
	a, err := url.Parse(known)
	b, failed := url.Parse(found)
	if err != nil || failed != nil || found == "" || input.Origin(a) != input.Origin(b) || b.User != nil {
		return known
	}
	return found
}
