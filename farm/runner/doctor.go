package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"path/filepath"
	"time"

	"svc/farm/runner/identity"
	"svc/farm/runner/sandbox"
)

// Sandboxes probes each kind of sandbox, and yields why it does not work, or nil.
func Sandboxes(ctx context.Context, f identity.Folder, program string, mounts []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		dir, bad := filepath.Abs(f.Path(identity.WorkFolder))
		for _, kind := range []string{sandbox.None, sandbox.Bubblewrap} {
			err := bad
			if err == nil && kind == sandbox.Bubblewrap {
				err = sandbox.CheckMounts(mounts, string(f))
			}
			if err == nil {
				err = sandbox.Probe(ctx, sandbox.Config{Dir: dir, Program: program, Kind: kind, Mounts: mounts})
			}
			if !yield(kind, err) {
				return
			}
		}
	}
}

// A Finding is the result of one check.
type Finding struct {
	What string
	OK   bool
	Text string
}

// clockTolerance is the clock difference that is still accepted. Certificates become valid longer
// than that before they are issued.
const clockTolerance = 2 * time.Minute

// Diagnose checks everything that a runner needs, in order of dependency, and stops at a check that
// later ones depend on.
func Diagnose(ctx context.Context, f identity.Folder, program string, mounts []string) (list []Finding) {
	add := func(what string, err error, text string) bool {
		if err != nil {
			text = err.Error()
		}
		list = append(list, Finding{what, err == nil, text})
		return err == nil
	}
	if free := diskFree(string(f)); free >= 0 && free < diskGuard {
		add("disk", fmt.Errorf("%d MiB are free; jobs are taken from %d MiB on", free>>20, diskGuard>>20), "")
	} else {
		add("disk", nil, fmt.Sprintf("%d MiB are free", free>>20))
	}
	for kind, err := range Sandboxes(ctx, f, program, mounts) {
		add("sandbox "+kind, err, "works")
	}
	add("limits", nil, sandbox.Prepare())
	id, err := f.Identity()
	if !add("enrollment", err, id.Name+" "+id.RunnerID) {
		return list
	}
	lock, err := f.KeepCertificate()
	if err != nil {
		add("credentials", err, "")
		return list
	}
	defer lock.Unlock()
	l, err := identity.OpenClient(f, id)
	if !add("credentials", err, "") {
		return list
	}
	defer l.Close()
	if left := time.Until(l.Expiry()); left <= 0 {
		add("certificate", errors.New("it has expired; enroll the machine anew"), "")
	} else {
		add("certificate", nil, "good for "+left.Round(time.Minute).String())
	}
	list = append(list, checkFarm(ctx, l)...)
	if st, err := AskStatus(ctx, f); err == nil {
		list = append(list, Finding{"connection", st.Unsteady() == "", cmp.Or(st.Unsteady(), "steady")})
	}
	return list
}

// certificateProblem says why the farm does not take the certificate, which expires at a time by this machine's clock.
func certificateProblem(r *identity.Refusal, expiry time.Time) string {
	reason, _ := r.Details["reason"].(string)
	switch {
	case reason == "certificate_expired" || !time.Now().Before(expiry):
		return "has expired; enroll the machine anew"
	case reason == "gateway_not_trusted":
		return "does not count: the proxy that passes it on is not in SVC_FARM_TRUSTED_PROXIES"
	case reason == "certificate_invalid":
		return "arrives, but is not valid: it was replaced or changed on the way; enroll the machine anew"
	}
	return "does not arrive: a proxy drops it, or the header has another name than SVC_FARM_CLIENT_CERT_HEADER"
}

// checkFarm checks that the farm is reachable and recognizes this machine's certificate.
func checkFarm(ctx context.Context, l *identity.Client) (list []Finding) {
	var self struct {
		Name       string    `json:"name"`
		State      string    `json:"state"`
		ServerTime time.Time `json:"serverTime"`
	}
	sent := time.Now()
	err := l.CallJSON(ctx, "GET", identity.RegistrationsPath+"/self", nil, &self)
	var r *identity.Refusal
	var op *net.OpError
	switch {
	case err == nil:
		list = append(list, Finding{"farm", true, "reached; it is certain who it is"},
			Finding{"client certificate", true, "arrives: " + self.Name + ", " + self.State})
	case errors.As(err, &r) && r.Code == "runner_certificate_required":
		return append(list, Finding{"farm", true, "reached"}, Finding{"client certificate", false, certificateProblem(r, l.Expiry())})
	case errors.As(err, &r):
		return append(list, Finding{"farm", true, "reached"}, Finding{"client certificate", false, r.Error()})
	case errors.As(err, &op):
		return append(list, Finding{"farm", false, "cannot be reached: " + err.Error()})
	default:
		return append(list, Finding{"farm", false, err.Error() + " (a private authority is given by enroll -server-ca)"})
	}
	took := time.Since(sent)
	off := self.ServerTime.Sub(sent.Add(took / 2)).Abs()
	text := "differs from the farm's by " + off.Round(time.Millisecond).String()
	return append(list, Finding{"clock", off <= clockTolerance, text})
}
