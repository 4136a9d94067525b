package events

import "time"

// enrollments are invitations to machines, each with its own stream and a token.
var enrollments = Noun{
	Name: "enrollment", Audience: Administrators,
	people: [][]decoder{
		decodersOf[EnrollmentMinted](),
		decodersOf[EnrollmentRefused](),
		decodersOf[EnrollmentExpired](),
		decodersOf[EnrollmentWithdrawn](),
	},
	work: [][]decoder{
		decodersOf[EnrollmentUsed](),
	},
}

// EnrollmentMinted says that a token was created by which one machine, or several, can become runners.
type EnrollmentMinted struct {
	Enrollment      ID          `json:"enrollmentId"`
	Name            string      `json:"name"` // of the runner, or "" if the machine chooses
	Labels          []string    `json:"labels"`
	ExclusiveLabels []string    `json:"exclusiveLabels"`
	CapacityLimit   int         `json:"capacityLimit"`
	Jobs            int         `json:"jobs"` // how many the runner takes before it retires; 0 means no limit
	ExpiresAt       time.Time   `json:"expiresAt"`
	Fingerprint     Fingerprint `json:"fingerprint"` // of the token
	Tail            string      `json:"tail"`        // the token's last four characters

	Uses int `json:"uses,omitempty"` // how many machines it enrolls, if not one
}

func (EnrollmentMinted) Kind() string              { return "enrollment.minted" }
func (e EnrollmentMinted) target(r *Record) Target { return Target{"enrollment", r.Stream, e.Name} }
func (e EnrollmentMinted) changes(*Record) []Change {
	return []Change{
		{"labels", nil, e.Labels}, {"exclusiveLabels", nil, e.ExclusiveLabels}, {"capacityLimit", nil, e.CapacityLimit},
		{"jobs", nil, e.Jobs}, {"uses", nil, e.Machines()}, {"expiresAt", nil, e.ExpiresAt}, {"tokenTail", nil, e.Tail},
	}
}

// Machines returns how many machines the token enrolls.
func (e EnrollmentMinted) Machines() int { return max(e.Uses, 1) }

// EnrollmentUsed says that a machine became a runner with the token. Once as many have as may, the token is valid for
// their keys only.
type EnrollmentUsed struct {
	Enrollment ID      `json:"enrollmentId"`
	Name       string  `json:"name"` // of the runner
	Runner     ID      `json:"runnerId"`
	Key        KeyHash `json:"publicKeySha256"`
}

func (EnrollmentUsed) Kind() string              { return "enrollment.used" }
func (e EnrollmentUsed) target(r *Record) Target { return Target{"enrollment", r.Stream, e.Name} }
func (e EnrollmentUsed) changes(*Record) []Change {
	return []Change{{"runnerId", nil, e.Runner}, {"publicKeySha256", nil, e.Key}}
}

// EnrollmentRefused says that a machine with another key showed a token that had been used as often as it may be.
// The number of recorded refusals of an enrollment is limited.
type EnrollmentRefused struct {
	Enrollment ID      `json:"enrollmentId"`
	Name       string  `json:"name"`
	Key        KeyHash `json:"publicKeySha256"`
	Reason     string  `json:"reason"` // enrollment_used
}

func (EnrollmentRefused) Kind() string              { return "enrollment.refused" }
func (e EnrollmentRefused) target(r *Record) Target { return Target{"enrollment", r.Stream, e.Name} }
func (e EnrollmentRefused) changes(*Record) []Change {
	return []Change{{"reason", nil, e.Reason}, {"publicKeySha256", nil, e.Key}}
}

// EnrollmentExpired says that the token was shown after it had expired, for the first time.
type EnrollmentExpired struct {
	Enrollment ID        `json:"enrollmentId"`
	Name       string    `json:"name"`
	ExpiredAt  time.Time `json:"expiredAt"`
}

func (EnrollmentExpired) Kind() string              { return "enrollment.expired" }
func (e EnrollmentExpired) target(r *Record) Target { return Target{"enrollment", r.Stream, e.Name} }
func (e EnrollmentExpired) changes(*Record) []Change {
	return []Change{{"expiredAt", nil, e.ExpiredAt}}
}

// EnrollmentWithdrawn says that somebody revoked the token before it was used as often as it may be.
type EnrollmentWithdrawn struct {
	Enrollment ID     `json:"enrollmentId"`
	Name       string `json:"name"`
	Tail       string `json:"tail"`
}

func (EnrollmentWithdrawn) Kind() string              { return "enrollment.withdrawn" }
func (e EnrollmentWithdrawn) target(r *Record) Target { return Target{"enrollment", r.Stream, e.Name} }
func (EnrollmentWithdrawn) changes(*Record) []Change {
	return []Change{{"status", "pending", "withdrawn"}}
}
