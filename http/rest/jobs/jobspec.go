package jobs

import (
	"github.com/danielgtaylor/huma/v2"

	"svc/events"
	"svc/http/rest/schema"
)

// The parts of a job's spec, in requests and answers. Optional fields have the default that their
// description names; answers contain it.
type (
	jobRepo struct {
		ID     string `json:"id" format:"uuid" doc:"The id of a repository of the workspace, as in GET /repos."`
		Name   string `json:"name,omitempty" readOnly:"true" example:"acme/web"`
		Commit string `json:"commit,omitempty" maxLength:"64" doc:"40 or 64 hexadecimal digits, in lower case in answers. A commit or a ref is required." example:"9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"`
		Ref    string `json:"ref,omitempty" maxLength:"245" doc:"The full name of a ref, by the rules of git check-ref-format. Without a commit, the first attempt checks out what it is then, and later attempts the same commit." example:"refs/heads/run/42"`
	}
	jobRequires struct {
		Labels []string   `json:"labels,omitempty" maxItems:"16" nullable:"false" doc:"Labels that a runner must have, all of them. Those of its machine begin with machine:, and are no proof of anything." example:"[\"os=linux\", \"arch=amd64\"]"`
		AnyOf  [][]string `json:"anyOf,omitempty" maxItems:"8" nullable:"false" doc:"Sets of labels. A runner must have all labels of at least one set." example:"[[\"gpu=a100\"], [\"gpu=h100\"]]"`
	}
	jobArtifactSpec struct {
		Name     string   `json:"name" maxLength:"100" example:"dist"`
		Paths    []string `json:"paths" minItems:"1" maxItems:"20" nullable:"false" doc:"Glob patterns relative to the working directory. Symbolic links to what is in it are followed; others are left out, as leftOut of the job says." example:"[\"dist/**\"]"`
		When     string   `json:"when,omitempty" enum:"success,failure,always" doc:"Defaults to success."`
		Required bool     `json:"required,omitempty" doc:"Whether the job fails if no file matches or a file is not uploaded."`
	}
	jobTimeouts struct {
		QueueSeconds       int  `json:"queueSeconds,omitempty" minimum:"1" maximum:"604800" doc:"How long the job can be queued before it expires. Defaults to a day. A retry can be queued for a day, or for this time if it is longer."`
		RunSeconds         int  `json:"runSeconds,omitempty" minimum:"1" maximum:"86400" doc:"How long the job can run before it is ended. Defaults to an hour."`
		CancelGraceSeconds *int `json:"cancelGraceSeconds,omitempty" minimum:"0" maximum:"600" doc:"How long a cancelled job has to end by itself. Defaults to 30."`
		IdleSeconds        int  `json:"idleSeconds,omitempty" minimum:"0" maximum:"86400" doc:"How long a step can print nothing before the job is ended as timed out. Defaults to no limit."`
	}
	jobRetry struct {
		MaxAttempts int      `json:"maxAttempts,omitempty" minimum:"1" maximum:"10" doc:"Defaults to 3."`
		On          []string `json:"on,omitempty" maxItems:"2" enum:"lost,infra" nullable:"false" doc:"When to retry. Defaults to both. lost: the runner was lost. infra: the runner reported an infrastructure failure." example:"[\"lost\", \"infra\"]"`
	}
	jobConcurrency struct {
		Key   string `json:"key" minLength:"1" maxLength:"200" doc:"Jobs with the same key share the limit." example:"deploy/main"`
		Limit int    `json:"limit,omitempty" minimum:"1" maximum:"100" doc:"Maximum number of jobs with this key that run at once. Defaults to 1. If jobs set different limits, the lowest among the running jobs and the next one applies."`
	}
)

// TransformSchema says that a set of labels is never null, for which there is no tag.
func (jobRequires) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["anyOf"].Items.Nullable = false
	return s
}

// A jobSpec is the spec of a job in answers.
type jobSpec struct {
	Repo        *jobRepo             `json:"repo,omitempty"`
	Steps       []schema.JobStepSpec `json:"steps" nullable:"false"`
	Requires    jobRequires          `json:"requires"`
	Sandbox     schema.JobSandbox    `json:"sandbox"`
	Secrets     []string             `json:"secrets" nullable:"false" doc:"Names of the job secrets that the job uses."`
	Artifacts   []jobArtifactSpec    `json:"artifacts" nullable:"false"`
	Timeouts    jobTimeouts          `json:"timeouts"`
	Retry       jobRetry             `json:"retry"`
	Concurrency *jobConcurrency      `json:"concurrency,omitempty"`
	Annotations map[string]string    `json:"annotations" doc:"The notes of the submission."`
}

func newJobSpec(s events.JobSpec) jobSpec {
	out := jobSpec{
		Steps: []schema.JobStepSpec{}, Requires: jobRequires(s.Requires), Sandbox: schema.JobSandbox(s.Sandbox),
		Secrets: append([]string{}, s.Secrets...), Artifacts: []jobArtifactSpec{},
		Timeouts: jobTimeouts{s.Timeouts.QueueSeconds, s.Timeouts.RunSeconds, &s.Timeouts.CancelGraceSeconds, s.Timeouts.IdleSeconds},
		Retry:    jobRetry(s.Retry), Annotations: map[string]string{},
	}
	if s.Repo != nil {
		out.Repo = &jobRepo{s.Repo.ID.String(), s.Repo.Name, s.Repo.Commit, s.Repo.Ref}
	}
	for _, step := range s.Steps {
		out.Steps = append(out.Steps, schema.JobStepSpec(step))
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
