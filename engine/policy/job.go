package policy

import (
	"fmt"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"svc/events"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readJob reads a job. Its sandbox is that of the settings' first job unless the file says otherwise, and it may
// not be more open than those of the settings' jobs.
func readJob(n *yaml.Node, others []events.RequiredJob) (events.RequiredJob, error) {
	job := events.RequiredJob{Sandbox: events.JobSandbox{Kind: "bubblewrap", Network: "none"}}
	if len(others) > 0 {
		job.Sandbox = others[0].Sandbox
	}
	err := fields{
		"name": text(&job.Name, 100),
		"steps": each(events.MaxJobSteps, func(n *yaml.Node) error {
			step, err := readStep(n, len(job.Steps)+1)
			job.Steps = append(job.Steps, step)
			return err
		}),
		"labels":     texts(&job.Labels, 20, 100),
		"runSeconds": number(&job.RunSeconds, 1, 24*60*60),
		"sandbox": fields{
			"kind": oneOf(&job.Sandbox.Kind, map[string]string{"bubblewrap": "", "none": "only jobs of the settings may do without a sandbox"},
				func(v string) bool {
					return slices.ContainsFunc(others, func(j events.RequiredJob) bool { return j.Sandbox.Kind == v })
				}),
			"network": oneOf(&job.Sandbox.Network, map[string]string{"none": "", "host": "only jobs of the settings may use the network"},
				func(v string) bool {
					return slices.ContainsFunc(others, func(j events.RequiredJob) bool { return j.Sandbox.Network == v })
				}),
			"memoryMiB": number(&job.Sandbox.MemoryMiB, 16, 1<<20),
			"cpus":      decimal(&job.Sandbox.CPUs, 256),
		}.read,
	}.read(n)
	switch {
	case err != nil:
		return job, err
	case job.Name == "":
		return job, at(n, "the job has no name")
	case len(job.Steps) == 0:
		return job, at(n, "the job has no steps")
	}
	return job, nil
}

// oneOf reads one of the values of a map. A value with a reason is refused with it unless others have
// it.
func oneOf(into *string, values map[string]string, have func(string) bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		reason, known := values[n.Value]
		switch {
		case !known || n.Kind != yaml.ScalarNode:
			return at(n, "%q is not known here", n.Value)
		case reason != "" && !have(n.Value):
			return at(n, "%s", reason)
		}
		*into = n.Value
		return nil
	}
}

func readStep(n *yaml.Node, number1 int) (events.JobStep, error) {
	step := events.JobStep{Name: fmt.Sprintf("step %d", number1)}
	err := fields{
		"name":           text(&step.Name, 100),
		"run":            text(&step.Run, 16<<10),
		"shell":          text(&step.Shell, 50),
		"timeoutSeconds": number(&step.TimeoutSeconds, 1, 24*60*60),
		"env": func(n *yaml.Node) error {
			if n.Kind != yaml.MappingNode || len(n.Content) > 2*100 {
				return at(n, "a mapping of at most 100 variables is expected here")
			}
			step.Env = map[string]string{}
			for i := 0; i+1 < len(n.Content); i += 2 {
				key, value := n.Content[i], ""
				if !variableName.MatchString(key.Value) {
					return at(key, "%q is not the name of a variable", key.Value)
				}
				if err := text(&value, 4096)(n.Content[i+1]); err != nil {
					return err
				}
				step.Env[key.Value] = value
			}
			return nil
		},
	}.read(n)
	if err == nil && step.Run == "" {
		err = at(n, "the step has nothing to run")
	}
	return step, err
}
