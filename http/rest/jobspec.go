package rest

import (
	"svc/events"
)

// What a job is asked for by, and shown as. Left out, each field has the value that its
// text names; in answers it is filled in.
type (
	jobRepo struct {
		ID     string `json:"id" format:"uuid" doc:"A repository of the workspace: one that runs have worked on."`
		Name   string `json:"name,omitempty" readOnly:"true" example:"acme/web"`
		Commit string `json:"commit,omitempty" maxLength:"64" doc:"40 or 64 hexadecimal digits. A commit or a ref is needed." example:"9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"`
		Ref    string `json:"ref,omitempty" maxLength:"245" example:"refs/heads/run/42"`
	}
	jobStepSpec struct {
		Name           string            `json:"name,omitempty" maxLength:"100" doc:"By default its number." example:"test"`
		Run            string            `json:"run" maxLength:"65536" doc:"What the shell runs, in the working directory." example:"go test ./..."`
		Shell          string            `json:"shell,omitempty" enum:"sh,bash" doc:"By default sh."`
		Env            map[string]string `json:"env,omitempty" doc:"Variables of the step. They are shown to whoever sees the job: no place for secrets." example:"{\"CI\": \"true\"}"`
		TimeoutSeconds int               `json:"timeoutSeconds,omitempty" minimum:"1" maximum:"86400" doc:"By default that of the job."`
	}
	jobRequires struct {
		Labels []string   `json:"labels,omitempty" maxItems:"16" nullable:"false" doc:"Labels that a runner needs, all of them." example:"[\"os=linux\", \"arch=amd64\"]"`
		AnyOf  [][]string `json:"anyOf,omitempty" maxItems:"8" nullable:"false" doc:"Sets of labels: a runner needs all of one." example:"[[\"gpu=a100\"], [\"gpu=h100\"]]"`
	}
	jobSandbox struct {
		Kind      string  `json:"kind,omitempty" enum:"none,bubblewrap" doc:"By default bubblewrap. With none a job is as free as the runner."`
		Network   string  `json:"network,omitempty" enum:"none,host" doc:"By default none; the kind none has that of the host."`
		MemoryMiB int     `json:"memoryMiB,omitempty" minimum:"1" maximum:"1048576" doc:"By default no limit."`
		CPUs      float64 `json:"cpus,omitempty" exclusiveMinimum:"0" maximum:"1024" doc:"By default no limit."`
	}
	jobArtifactSpec struct {
		Name     string   `json:"name" maxLength:"100" example:"dist"`
		Paths    []string `json:"paths" minItems:"1" maxItems:"20" nullable:"false" doc:"Patterns of files below the working directory." example:"[\"dist/**\"]"`
		When     string   `json:"when,omitempty" enum:"success,failure,always" doc:"By default success."`
		Required bool     `json:"required,omitempty" doc:"Without a file, or if one is not uploaded, the job has failed."`
	}
	jobTimeouts struct {
		QueueSeconds       int  `json:"queueSeconds,omitempty" minimum:"1" maximum:"604800" doc:"Until a runner takes it, by default a day: then it expires. To be tried again it may wait a day, or this if it is longer."`
		RunSeconds         int  `json:"runSeconds,omitempty" minimum:"1" maximum:"86400" doc:"By default an hour: then it is ended."`
		CancelGraceSeconds *int `json:"cancelGraceSeconds,omitempty" minimum:"0" maximum:"600" doc:"By default 30: what it has to end by itself."`
	}
	jobRetry struct {
		MaxAttempts int      `json:"maxAttempts,omitempty" minimum:"1" maximum:"10" doc:"By default 3."`
		On          []string `json:"on,omitempty" maxItems:"2" enum:"lost,infra" nullable:"false" doc:"By default both. lost: its runner was silent. infra: its runner says that it was not the job's fault." example:"[\"lost\", \"infra\"]"`
	}
	jobConcurrency struct {
		Key   string `json:"key" minLength:"1" maxLength:"200" doc:"Of all jobs with this key only so many run at once." example:"deploy/main"`
		Limit int    `json:"limit,omitempty" minimum:"1" maximum:"100" doc:"By default 1. Where jobs of a key differ, the least of those that run and of the one that would begin counts."`
	}
)

// A jobSpec is what somebody asked for.
type jobSpec struct {
	Repo        *jobRepo          `json:"repo,omitempty"`
	Steps       []jobStepSpec     `json:"steps" nullable:"false"`
	Requires    jobRequires       `json:"requires"`
	Sandbox     jobSandbox        `json:"sandbox"`
	Secrets     []string          `json:"secrets" nullable:"false" doc:"Names of secrets that it is given."`
	Artifacts   []jobArtifactSpec `json:"artifacts" nullable:"false"`
	Timeouts    jobTimeouts       `json:"timeouts"`
	Retry       jobRetry          `json:"retry"`
	Concurrency *jobConcurrency   `json:"concurrency,omitempty"`
	Annotations map[string]string `json:"annotations" doc:"What whoever submitted it noted."`
}

func newJobSpec(s events.JobSpec) jobSpec {
	out := jobSpec{
		Steps: []jobStepSpec{}, Requires: jobRequires(s.Requires), Sandbox: jobSandbox(s.Sandbox),
		Secrets: append([]string{}, s.Secrets...), Artifacts: []jobArtifactSpec{},
		Timeouts: jobTimeouts{s.Timeouts.QueueSeconds, s.Timeouts.RunSeconds, &s.Timeouts.CancelGraceSeconds},
		Retry:    jobRetry(s.Retry), Annotations: map[string]string{},
	}
	if s.Repo != nil {
		out.Repo = &jobRepo{s.Repo.ID.String(), s.Repo.Name, s.Repo.Commit, s.Repo.Ref}
	}
	for _, step := range s.Steps {
		out.Steps = append(out.Steps, jobStepSpec(step))
	}
	for _, a := range s.Artifacts {
		out.Artifacts = append(out.Artifacts, jobArtifactSpec(a))
	}
	if s.Concurrency != nil {
		concurrency := jobConcurrency(*s.Concurrency)
		out.Concurrency = &concurrency
	}
	if s.Annotations != nil {
		out.Annotations = s.Annotations
	}
	return out
}
