package schema

import (
	"svc/events"
	"svc/http/openapi"
)

// A JobRunner is the current or last runner of a job.
type JobRunner struct {
	_    struct{} `nullable:"true"`
	ID   string   `json:"id" format:"uuid"`
	Name string   `json:"name" example:"builder-1"`
}

// A JobLog is the state of the log of a job.
type JobLog struct {
	Bytes     int64  `json:"bytes" doc:"Size so far. The log of a job is that of its last attempt."`
	Complete  bool   `json:"complete" doc:"Whether the log is final."`
	Truncated bool   `json:"truncated" doc:"Whether the job wrote more than the 64 MiB that a log may have, or than its workspace, or its submitter, may store in a day."`
	Integrity string `json:"integrity" enum:",verified,mismatch,incomplete" doc:"Whether the stored log matches the runner's checksum; incomplete if the service cut it or the runner sent no checksum; empty until it is complete. A log that the runner cut at 64 MiB is verified, and truncated."`
}

// A JobStepSpec is a step of a job, as submitted.
type JobStepSpec struct {
	Name           string            `json:"name,omitempty" maxLength:"100" doc:"Defaults to the step's number." example:"test"`
	Run            string            `json:"run" maxLength:"65536" doc:"The script that the shell runs in the working directory." example:"go test ./..."`
	Shell          string            `json:"shell,omitempty" enum:"sh,bash" doc:"Defaults to sh. sh is run with -e, bash with -eo pipefail: the step fails at the first command that fails."`
	Env            map[string]string `json:"env,omitempty" doc:"Environment variables of the step. Everybody who can see the job can see them; do not put secrets here." example:"{\"CI\": \"true\"}"`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty" minimum:"1" maximum:"86400" doc:"Defaults to the job's runSeconds."`
}

// A JobSandbox is what the steps of a job may use of their machine.
type JobSandbox struct {
	Kind      string  `json:"kind,omitempty" enum:"none,bubblewrap" doc:"Defaults to bubblewrap. With none, a job has the same access as the runner."`
	Network   string  `json:"network,omitempty" enum:"none,host" doc:"Defaults to none. With the sandbox kind none, a job always uses the host's network."`
	MemoryMiB int     `json:"memoryMiB,omitempty" minimum:"1" maximum:"1048576" doc:"Defaults to no limit."`
	CPUs      float64 `json:"cpus,omitempty" exclusiveMinimum:"0" maximum:"1024" doc:"Defaults to no limit."`
}

// NewSandbox returns nil for the sandbox that a job has by default.
func NewSandbox(s events.JobSandbox) *JobSandbox {
	if s == (events.JobSandbox{}) {
		return nil
	}
	out := JobSandbox(s)
	return &out
}

// A JobAtFarm is the state of a run's job at the build farm.
type JobAtFarm struct {
	_          struct{}           `nullable:"true"`
	State      events.JobState    `json:"state" enum:"queued,leased,running,cancelling,succeeded,failed,cancelled,timed_out,lost,expired"`
	Attempt    int                `json:"attempt"`
	Runner     *JobRunner         `json:"runner" doc:"The current or last runner; null if it was never assigned."`
	StartedAt  *openapi.Timestamp `json:"startedAt" nullable:"true"`
	FinishedAt *openapi.Timestamp `json:"finishedAt" nullable:"true"`
	Log        JobLog             `json:"log"`
}
