package aggregates

import (
	"slices"

	"svc/events"
	"svc/fault"
)

// artifacts are the files that a job leaves. They are uploaded after it has finished.
type artifacts struct {
	declared bool
	files    []events.JobArtifact
	stored   map[events.ID]bool
	complete bool
	closed   bool // complete, abandoned, or the job ended without a word of its runner
}

// await notes how many files follow.
func (a *artifacts) await(files int) {
	*a = artifacts{stored: map[events.ID]bool{}, closed: files == 0}
}

func (j *Job) applyArtifacts(e events.Event) {
	a := &j.artifacts
	switch e := e.(type) {
	case events.JobArtifactsDeclared:
		a.declared, a.files = true, e.Files
	case events.JobArtifactStored:
		a.stored[e.File.ID] = true
	case events.JobArtifactsCompleted:
		a.complete = true
		j.closeArtifacts(e.FailsJob())
	case events.JobArtifactsAbandoned:
		j.closeArtifacts(e.FailsJob())
	}
}

// closeArtifacts notes that no more files come, and that the job has failed by that if it has.
func (j *Job) closeArtifacts(fails bool) {
	j.artifacts.closed = true
	if fails {
		j.state = events.JobFailed
	}
}

// uploads refuses a runner that may not upload files of the job. One that does not have it is
// told what it is told of a job that there is not.
func (j *Job) uploads(runner events.ID, epoch int) error {
	switch {
	case j.state == "" || j.runner != runner:
		return ErrNoJob
	case j.epoch != epoch:
		return ErrJobNotOwner
	case !j.state.Final():
		return ErrJobNotFinished
	}
	return nil
}

// DeclareArtifacts says which files the runner is about to upload. The same again
// changes nothing; others are refused.
func (j *Job) DeclareArtifacts(runner events.ID, epoch int, files []events.JobArtifact) ([]events.Event, error) {
	if err := j.uploads(runner, epoch); err != nil {
		return nil, err
	}
	a := &j.artifacts
	same := a.declared && slices.Equal(a.files, files)
	switch {
	case same && (a.complete || !a.closed):
		return nil, nil
	case a.closed:
		return nil, ErrArtifactsClosed
	case len(files) == 0:
		return nil, fault.Field("files", "must name a file")
	case a.declared:
		return nil, fault.Field("files", "must be those that were declared before")
	case slices.ContainsFunc(files, func(f events.JobArtifact) bool { return !j.keeps(f.Name) }):
		return nil, fault.Field("files", "must be of artifacts that the job asks for")
	}
	return one(events.JobArtifactsDeclared{Epoch: epoch, Files: files, Bytes: bytesOf(files)})
}

// keeps reports whether the job asks for an artifact of a name.
func (j *Job) keeps(name string) bool {
	return slices.ContainsFunc(j.spec.Artifacts, func(a events.JobArtifactSpec) bool { return a.Name == name })
}

func bytesOf(files []events.JobArtifact) (sum int64) {
	for _, f := range files {
		sum += f.Size
	}
	return sum
}

// StoreArtifacts says that files that were declared are whole. The last one completes the artifacts.
// A job that succeeded fails then if an artifact that it requires was not declared.
func (j *Job) StoreArtifacts(runner events.ID, epoch int, ids []events.ID) (list []events.Event, err error) {
	if err := j.uploads(runner, epoch); err != nil {
		return nil, err
	}
	a := &j.artifacts
	told := map[events.ID]bool{}
	for _, id := range ids {
		i := slices.IndexFunc(a.files, func(f events.JobArtifact) bool { return f.ID == id })
		switch {
		case i < 0:
			return nil, fault.Field("files", "must be declared first")
		case a.stored[id] || told[id]:
			continue
		case a.closed:
			return nil, ErrArtifactsClosed
		}
		told[id] = true
		list = append(list, events.JobArtifactStored{Epoch: epoch, File: a.files[i]})
	}
	if len(list) > 0 && len(a.stored)+len(list) == len(a.files) {
		list = append(list, events.JobArtifactsCompleted{
			Epoch: epoch, Files: len(a.files), Bytes: bytesOf(a.files), Missing: j.lacks(a.names),
		})
	}
	return list, nil
}

// AbandonArtifacts says that no more files come. A job that succeeded fails if it lacks
// artifacts that it requires.
func (j *Job) AbandonArtifacts() ([]events.Event, error) {
	if !j.state.Final() || j.artifacts.closed {
		return nil, nil
	}
	e := events.JobArtifactsAbandoned{Epoch: j.epoch, Reason: "incomplete", Missing: j.lacks(j.artifacts.whole)}
	if !j.artifacts.declared {
		e.Reason = "no_upload"
	}
	return one(e)
}

// lacks returns which artifacts there are not that the job requires, if it has succeeded.
func (j *Job) lacks(there func(name string) bool) (names []string) {
	if j.state != events.JobSucceeded {
		return nil
	}
	for _, name := range j.required() {
		if !there(name) {
			names = append(names, name)
		}
	}
	return names
}

// required returns the names of the artifacts without which the job cannot succeed.
func (j *Job) required() (names []string) {
	for _, a := range j.spec.Artifacts {
		if a.Required && a.When != "failure" {
			names = append(names, a.Name)
		}
	}
	return names
}

// names reports whether files of an artifact were declared.
func (a *artifacts) names(name string) bool {
	return slices.ContainsFunc(a.files, func(f events.JobArtifact) bool { return f.Name == name })
}

// whole reports whether an artifact has files, and each is stored.
func (a *artifacts) whole(name string) bool {
	lost := func(f events.JobArtifact) bool { return f.Name == name && !a.stored[f.ID] }
	return a.names(name) && !slices.ContainsFunc(a.files, lost)
}
