package kit

import "cmp"

// JobReason returns in words why a job or an attempt ended. What a person gave as the reason stays as it is.
func JobReason(reason string) string { return cmp.Or(jobReasons[reason], reason) }

var jobReasons = map[string]string{
	"agent_crashed":    "the runner's process for it crashed",
	"agent_restarted":  "the runner was restarted",
	"agent_stop":       "the runner was stopped",
	"artifact_missing": "a required artifact is missing",
	"busy":             "the runner was busy",
	"cancel":           "it was cancelled",
	"checkout_failed":  "the repository could not be checked out",
	"declined":         "the runner declined it",
	"disk_full":        "the runner's disk is full",
	"disk_limit":       "it used more disk than it may",
	"draining":         "the runner was draining",
	"fenced":           "the runner had lost its lease",
	"idle":             "it printed nothing for too long",
	"infra":            "the runner could not run it",
	"lease_expired":    "the runner went silent",
	"no_answer":        "the runner did not answer",
	"no_secrets":       "a secret that it names could not be given to it",
	"oom":              "it ran out of memory",
	"outcome":          "it was stopped after its work was done",
	"run_timeout":      "it took longer than it may",
	"sandbox_failed":   "the sandbox could not be started",
	"step_timeout":     "a step took longer than it may",
	"unsupported":      "the runner cannot run jobs like it",
}
