package runs

import (
	"svc/events"
	"svc/http/rest/schema"
)

// A repoSettings says how runs work on a repository, in answers.
type repoSettings struct {
	Branch           string             `json:"branch" doc:"The branch that runs merge into." example:"main"`
	Implementer      repoImplementer    `json:"implementer"`
	RequiredJobs     []requiredJob      `json:"requiredJobs" nullable:"false"`
	ProtectedPaths   []string           `json:"protectedPaths" nullable:"false" example:"[\"deploy/**\"]"`
	MayAllowOnce     bool               `json:"mayAllowOnce"`
	Landing          events.Landing     `json:"landing" enum:"host,exact"`
	Method           events.MergeMethod `json:"method" enum:"merge,squash"`
	ApproverNotQueue bool               `json:"approverNotQueuer"`
	Label            string             `json:"label" doc:"Empty if no label queues issues." example:"svc"`
	MaxActive        int                `json:"maxActive" example:"5"`
	Rounds           int                `json:"rounds" example:"3"`
	Cents            int64              `json:"cents" example:"500"`
	MaxFiles         int                `json:"maxFiles" example:"50"`
	MaxLines         int                `json:"maxLines" example:"1500"`
	IssueCents       int64              `json:"issueCents" example:"2000"`
	Prices           tokenPrices        `json:"prices"`
}

// tokenPrices are prices of the implementer's model.
type tokenPrices struct {
	Input  float64 `json:"inputCents" minimum:"0" maximum:"1000000" doc:"Cents for a million input tokens." example:"125"`
	Output float64 `json:"outputCents" minimum:"0" maximum:"1000000" doc:"Cents for a million output tokens." example:"1000"`
}

// A RepoSettingsChange has the settings to change; absent ones keep their value, or get the default of a new
// repository.
type RepoSettingsChange struct {
	Branch           *string             `json:"branch,omitempty" minLength:"1" maxLength:"200" doc:"The branch that runs merge into. Defaults to the repository's default branch." example:"main"`
	Implementer      *repoImplementer    `json:"implementer,omitempty"`
	RequiredJobs     *[]requiredJob      `json:"requiredJobs,omitempty" maxItems:"20" nullable:"false" doc:"Jobs that the head of a run's branch, and what is merged, have to pass. The repository's .svc/loop.yaml can add more."`
	ProtectedPaths   *[]string           `json:"protectedPaths,omitempty" maxItems:"100" nullable:"false" doc:"Patterns of paths that runs may not change, besides those that are always protected." example:"[\"deploy/**\"]"`
	MayAllowOnce     *bool               `json:"mayAllowOnce,omitempty" doc:"Whether people may allow a run to change protected paths. Defaults to true."`
	Landing          *events.Landing     `json:"landing,omitempty" enum:"host,exact" doc:"host: the code host merges the pull request. exact: the tested commit itself is pushed, unless the branch has moved; always so with the kind git. Defaults to host."`
	Method           *events.MergeMethod `json:"method,omitempty" enum:"merge,squash" doc:"Defaults to merge."`
	ApproverNotQueue *bool               `json:"approverNotQueuer,omitempty" doc:"Whether whoever queued an issue may not approve its merge. Defaults to false."`
	Label            *string             `json:"label,omitempty" maxLength:"100" doc:"Issues that get this label at the code host, from somebody who may write to the repository, are queued: those that have it already, too. Empty, the default, is off." example:"svc"`
	MaxActive        *int                `json:"maxActive,omitempty" minimum:"1" maximum:"100" doc:"Active runs at once. Defaults to 5."`
	Rounds           *int                `json:"rounds,omitempty" minimum:"1" maximum:"10" doc:"How often a run may implement. Defaults to 3."`
	Cents            *int64              `json:"cents,omitempty" minimum:"0" maximum:"100000000" doc:"Budget of a run in cents; 0 is no limit, and the default."`
	MaxFiles         *int                `json:"maxFiles,omitempty" minimum:"1" maximum:"10000" doc:"Files that a run may change. Defaults to 50."`
	MaxLines         *int                `json:"maxLines,omitempty" minimum:"1" maximum:"1000000" doc:"Lines that a run may add and remove. Defaults to 1,500."`
	IssueCents       *int64              `json:"issueCents,omitempty" minimum:"0" maximum:"100000000" doc:"Budget in cents of all runs of an issue, from when it is set; 0 is no limit, and the default."`
	Prices           *tokenPrices        `json:"prices,omitempty" doc:"What the tokens cost that an implementer reports without their cost. Without prices such a cost is unknown."`
}

// A repoImplementer is what changes the code.
type repoImplementer struct {
	Kind        events.ImplementerKind `json:"kind" enum:"patch,command" doc:"patch: the issue carries the change as a diff. command: a shell command that runs as a job of the build farm. The other fields are for a command."`
	Run         string                 `json:"run,omitempty" maxLength:"65536" example:"./agent.sh"`
	Secrets     []string               `json:"secrets,omitempty" maxItems:"50" nullable:"false" doc:"Names of job secrets that the command gets as environment variables." example:"[\"MODEL_KEY\"]"`
	Labels      []string               `json:"labels,omitempty" maxItems:"16" nullable:"false" doc:"Labels that a runner must have." example:"[\"os=linux\"]"`
	Sandbox     *schema.JobSandbox     `json:"sandbox,omitempty"`
	RunSeconds  int                    `json:"runSeconds,omitempty" minimum:"1" maximum:"86400" doc:"Defaults to an hour."`
	IdleSeconds int                    `json:"idleSeconds,omitempty" minimum:"1" maximum:"86400" doc:"How long the command may write nothing. Defaults to 900."`
	Stages      []events.JobPurpose    `json:"stages,omitempty" maxItems:"3" nullable:"false" enum:"analyze,plan,review" doc:"Stages that the command does besides implementing. Defaults to none: the service does them."`
}

// A requiredJob is a job that commits have to pass.
type requiredJob struct {
	Name                  string               `json:"name" minLength:"1" maxLength:"100" example:"test"`
	Steps                 []schema.JobStepSpec `json:"steps" minItems:"1" maxItems:"50" nullable:"false"`
	Labels                []string             `json:"labels,omitempty" maxItems:"16" nullable:"false" doc:"Labels that a runner must have." example:"[\"os=linux\"]"`
	Sandbox               *schema.JobSandbox   `json:"sandbox,omitempty"`
	RunSeconds            int                  `json:"runSeconds,omitempty" minimum:"1" maximum:"86400" doc:"Defaults to an hour."`
	Secrets               []string             `json:"secrets,omitempty" maxItems:"50" nullable:"false" doc:"Names of job secrets. The job gets them once a person has approved the commit." example:"[\"NPM_TOKEN\"]"`
	SecretsBeforeApproval bool                 `json:"secretsBeforeApproval,omitempty" doc:"Whether the job gets its secrets before, when it runs code that nobody has looked at."`
}

// applyTo returns settings with those of c that are present.
func (c *RepoSettingsChange) applyTo(s events.RepoSettings) events.RepoSettings {
	set(&s.Branch, c.Branch)
	if c.Implementer != nil {
		s.Implementer = c.Implementer.event()
	}
	if c.RequiredJobs != nil {
		s.RequiredJobs = nil
		for _, job := range *c.RequiredJobs {
			s.RequiredJobs = append(s.RequiredJobs, job.event())
		}
	}
	set(&s.ProtectedPaths, c.ProtectedPaths)
	set(&s.MayAllowOnce, c.MayAllowOnce)
	set(&s.Landing, c.Landing)
	set(&s.Method, c.Method)
	set(&s.ApproverNotQueue, c.ApproverNotQueue)
	set(&s.Label, c.Label)
	set(&s.MaxActive, c.MaxActive)
	set(&s.Rounds, c.Rounds)
	set(&s.Cents, c.Cents)
	set(&s.MaxFiles, c.MaxFiles)
	set(&s.MaxLines, c.MaxLines)
	set(&s.IssueCents, c.IssueCents)
	set((*tokenPrices)(&s.Prices), c.Prices)
	return s
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func (i *repoImplementer) event() events.Implementer {
	e := events.Implementer{
		Kind: i.Kind, Run: i.Run, Secrets: i.Secrets, Labels: i.Labels, RunSeconds: i.RunSeconds, IdleSeconds: i.IdleSeconds,
		Stages: i.Stages,
	}
	if i.Sandbox != nil {
		e.Sandbox = events.JobSandbox(*i.Sandbox)
	}
	return e
}

func (j *requiredJob) event() events.RequiredJob {
	e := events.RequiredJob{
		Name: j.Name, Labels: j.Labels, RunSeconds: j.RunSeconds, Secrets: j.Secrets, SecretsBeforeApproval: j.SecretsBeforeApproval,
	}
	for _, step := range j.Steps {
		e.Steps = append(e.Steps, events.JobStep(step))
	}
	if j.Sandbox != nil {
		e.Sandbox = events.JobSandbox(*j.Sandbox)
	}
	return e
}

func newRepoSettings(s events.RepoSettings) repoSettings {
	out := repoSettings{
		Branch: s.Branch, RequiredJobs: []requiredJob{}, ProtectedPaths: append([]string{}, s.ProtectedPaths...),
		MayAllowOnce: s.MayAllowOnce, Landing: s.Landing, Method: s.Method, ApproverNotQueue: s.ApproverNotQueue, Label: s.Label,
		MaxActive: s.MaxActive, Rounds: s.Rounds, Cents: s.Cents, MaxFiles: s.MaxFiles, MaxLines: s.MaxLines,
		IssueCents: s.IssueCents, Prices: tokenPrices(s.Prices),
		Implementer: repoImplementer{
			Kind: s.Implementer.Kind, Run: s.Implementer.Run, Secrets: s.Implementer.Secrets, Labels: s.Implementer.Labels,
			Sandbox: schema.NewSandbox(s.Implementer.Sandbox), RunSeconds: s.Implementer.RunSeconds, IdleSeconds: s.Implementer.IdleSeconds,
			Stages: s.Implementer.Stages,
		},
	}
	for _, j := range s.RequiredJobs {
		job := requiredJob{
			Name: j.Name, Steps: []schema.JobStepSpec{}, Labels: j.Labels, Sandbox: schema.NewSandbox(j.Sandbox), RunSeconds: j.RunSeconds,
			Secrets: j.Secrets, SecretsBeforeApproval: j.SecretsBeforeApproval,
		}
		for _, step := range j.Steps {
			job.Steps = append(job.Steps, schema.JobStepSpec(step))
		}
		out.RequiredJobs = append(out.RequiredJobs, job)
	}
	return out
}
