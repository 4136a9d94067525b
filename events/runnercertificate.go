package events

// RunnerCertificateRenewed says that a runner got a new certificate. The previous one stays
// valid until the new one is used.
type RunnerCertificateRenewed struct {
	Runner      ID          `json:"runnerId"`
	Name        string      `json:"name"`
	Certificate Certificate `json:"certificate"`
}

func (RunnerCertificateRenewed) Kind() string              { return "runner.certificate_renewed" }
func (e RunnerCertificateRenewed) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerCertificateRenewed) changes(*Record) []Change {
	return []Change{{"serial", nil, e.Certificate.Serial}, {"notAfter", nil, e.Certificate.NotAfter}}
}

// RunnerCertificateSuperseded says that the runner's newest certificate was used for the
// first time. The previous one is no longer valid.
type RunnerCertificateSuperseded struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
	From   string `json:"fromSerial"`
	Serial string `json:"serial"`
}

func (RunnerCertificateSuperseded) Kind() string { return "runner.certificate_superseded" }
func (e RunnerCertificateSuperseded) target(r *Record) Target {
	return Target{"runner", r.Stream, e.Name}
}
func (e RunnerCertificateSuperseded) changes(*Record) []Change {
	return []Change{{"serial", e.From, e.Serial}}
}

// RunnerCertificateReused says that a superseded certificate was used: the runner's keys
// have been copied.
type RunnerCertificateReused struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
	Serial string `json:"serial"`
}

func (RunnerCertificateReused) Kind() string              { return "runner.certificate_reused" }
func (e RunnerCertificateReused) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerCertificateReused) changes(*Record) []Change {
	return []Change{{"serial", nil, e.Serial}}
}

// RunnerSuspended says that the runner's certificates are no longer accepted, for the
// reason given. The machine has to be enrolled again.
type RunnerSuspended struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
	Reason string `json:"reason"` // certificate_reused
}

func (RunnerSuspended) Kind() string              { return "runner.suspended" }
func (e RunnerSuspended) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerSuspended) changes(*Record) []Change {
	return []Change{{"state", nil, RunnerStateSuspended}, {"reason", nil, e.Reason}}
}

// RunnerRevoked says that somebody ended the runner and its certificates for good.
type RunnerRevoked struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
	Note   string `json:"note,omitempty"`
}

func (RunnerRevoked) Kind() string              { return "runner.revoked" }
func (e RunnerRevoked) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerRevoked) changes(*Record) []Change {
	return append([]Change{{"state", nil, RunnerStateRevoked}}, differing(Change{"note", "", e.Note})...)
}

// RunnerRetired says that the runner has done as many jobs as it was enrolled for.
type RunnerRetired struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
}

func (RunnerRetired) Kind() string              { return "runner.retired" }
func (e RunnerRetired) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (RunnerRetired) changes(*Record) []Change {
	return []Change{{"state", nil, RunnerStateRetired}}
}
