package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// etcPaths are the parts of /etc that programs need to find libraries, hosts, time zones and
// certificate authorities. The sandbox shows nothing else of /etc.
var etcPaths = []string{
	"/etc/alternatives", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/debian_version", "/etc/gai.conf", "/etc/hosts",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf",
	"/etc/os-release", "/etc/pki", "/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/timezone",
}

// Files passwd and group of the sandbox. Its user has the id that is nobody elsewhere.
const (
	accounts = "root:x:0:0:root:/root:/usr/sbin/nologin\nrunner:x:65534:65534:runner:/home/runner:/bin/sh\n"
	groups   = "root:x:0:\nrunner:x:65534:\n"
)

func writeAccounts(dir string) error {
	for name, text := range map[string]string{"passwd": accounts, "group": groups} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the sandbox's %s: %w", name, err)
		}
	}
	return nil
}

// optionsFD is the file descriptor of bubblewrap's options, after specFD.
const optionsFD = 4

// bubblewrapArgs returns the command line that runs args in bubblewrap, which reads its options from
// descriptor optionsFD.
func (j *Job) bubblewrapArgs(args []string) []string {
	return append([]string{j.bubblewrap, "--args", strconv.Itoa(optionsFD), "--"}, args...)
}

// bubblewrapOptions returns bubblewrap's options for a step with the variables env. No value has a
// zero byte.
func (j *Job) bubblewrapOptions(env []string) []string {
	w := []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
		"--hostname", "runner", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL",
		"--ro-bind", "/usr", "/usr",
	}
	if j.HostNetwork {
		w = append(w, "--share-net")
		if resolved, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil { // often a link into /run
			w = append(w, "--ro-bind", resolved, "/etc/resolv.conf")
		}
	}
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if to, err := os.Readlink(name); err == nil {
			w = append(w, "--symlink", to, name)
		} else if _, err := os.Stat(name); err == nil {
			w = append(w, "--ro-bind", name, name)
		}
	}
	for _, name := range append(etcPaths, j.Mounts...) {
		w = append(w, "--ro-bind-try", name, name)
	}
	if j.Input != nil {
		w = append(w, "--ro-bind", filepath.Join(j.Dir, inFolder), "/in")
	}
	w = append(w,
		"--ro-bind", filepath.Join(j.Dir, "passwd"), "/etc/passwd", "--ro-bind", filepath.Join(j.Dir, "group"), "/etc/group",
		"--proc", "/proc", "--dev", "/dev", "--bind", filepath.Join(j.Dir, shmFolder), "/dev/shm", "--remount-ro", "/dev",
		"--dir", "/var/tmp",
		"--bind", filepath.Join(j.Dir, tempFolder), "/tmp", "--bind", j.Home(), "/home/runner", "--bind", j.Work(), "/work",
	)
	for _, name := range j.hiddenAuthorities() {
		w = append(w, "--ro-bind", name, name)
	}
	w = append(w, "--remount-ro", "/", "--chdir", "/work", "--clearenv")
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		w = append(w, "--setenv", name, value)
	}
	return w
}

// hiddenAuthorities returns the authorities that the sandbox does not show yet. A folder that has the job's own
// folder in it, and so the runner's key, is not shown.
func (j *Job) hiddenAuthorities() (paths []string) {
	shown := slices.Concat([]string{"/usr"}, etcPaths, j.Mounts)
	for _, name := range j.Authorities {
		resolved, err := filepath.EvalSymlinks(name)
		if err != nil || isWithin(j.Dir, resolved) || slices.ContainsFunc(shown, func(m string) bool { return isWithin(name, m) }) {
			continue
		}
		paths = append(paths, name)
	}
	return paths
}

// CheckMounts returns an error if a mount would show the runner's own folder to steps.
func CheckMounts(mounts []string, own string) error {
	own, err := filepath.Abs(own)
	if err != nil {
		return fmt.Errorf("check mounts: %w", err)
	}
	if resolved, err := filepath.EvalSymlinks(own); err == nil {
		own = resolved
	}
	for _, m := range append([]string{"/usr"}, mounts...) {
		resolved, err := filepath.EvalSymlinks(m)
		if err != nil || !filepath.IsAbs(m) {
			return fmt.Errorf("mount %s: want the absolute path of an existing folder", m)
		}
		if isWithin(own, resolved) || isWithin(resolved, own) {
			return fmt.Errorf("mount %s: it would show steps the runner's key in %s", m, own)
		}
	}
	return nil
}

// isWithin reports whether path is folder, or is in it.
func isWithin(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
