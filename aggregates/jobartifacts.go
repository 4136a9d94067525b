package aggregates

import (
	"slices"

	"svc/events"
	"svc/fault"
)

// artifacts are the files that a job leaves. They are uploaded after it has finished.
type artifacts struct {
	awaited int // files that the runner said it has
	files   []events.JobArtifact
	stored  map[events.ID]bool
	closed  bool // complete, or abandoned
}

// await notes how many files follow.
func (a *artifacts) await(files int) {
	*a = artifacts{awaited: files, stored: map[events.ID]bool{}, closed: files == 0}
}

func (j *Job) applyArtifacts(e events.Event) {
	a := &j.artifacts
	switch e := e.(type) {
	case events.JobArtifactsDeclared:
		a.files = e.Files
	case events.JobArtifactStored:
		a.stored[e.File.ID] = true
	case events.JobArtifactsCompleted, events.JobArtifactsAbandoned:
		a.closed = true
	}
}

// uploads refuses a runner that may not upload files of the job.
func (j *Job) uploads(runner events.ID, epoch int) error {
	switch {
	case j.state == "":
		return ErrNoJob
	case j.runner != runner || j.epoch != epoch:
		return ErrJobNotOwner
	case !j.state.Final():
		return ErrJobNotFinished
	case j.artifacts.closed:
		return ErrArtifactsClosed
	}
	return nil
}

// DeclareArtifacts says which files the runner is about to upload. The same again
// changes nothing; others are refused.
func (j *Job) DeclareArtifacts(runner events.ID, epoch int, files []events.JobArtifact) ([]events.Event, error) {
	if err := j.uploads(runner, epoch); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fault.Field("files", "must name a file")
	}
	if j.artifacts.files != nil {
		if !slices.Equal(j.artifacts.files, files) {
			return nil, fault.Field("files", "must be those that were declared before")
		}
		return nil, nil
	}
	e := events.JobArtifactsDeclared{Epoch: epoch, Files: files}
	for _, f := range files {
		e.Bytes += f.Size
	}
	return one(e)
}

// DeclaredArtifacts returns the files that were declared, nil if none were, and which of them are stored.
func (j *Job) DeclaredArtifacts() (files []events.JobArtifact, stored map[events.ID]bool) {
	return j.artifacts.files, j.artifacts.stored
}

// StoreArtifact says that a file that was declared is whole. The last one completes the artifacts.
func (j *Job) StoreArtifact(runner events.ID, epoch int, id events.ID) ([]events.Event, error) {
	if err := j.uploads(runner, epoch); err != nil {
		return nil, err
	}
	a := &j.artifacts
	i := slices.IndexFunc(a.files, func(f events.JobArtifact) bool { return f.ID == id })
	switch {
	case i < 0:
		return nil, fault.Field("files", "must be declared first")
	case a.stored[id]:
		return nil, nil
	}
	list := []events.Event{events.JobArtifactStored{Epoch: epoch, File: a.files[i]}}
	if len(a.stored)+1 == len(a.files) {
		completed := events.JobArtifactsCompleted{Epoch: epoch, Files: len(a.files)}
		for _, f := range a.files {
			completed.Bytes += f.Size
		}
		list = append(list, completed)
	}
	return list, nil
}

// AbandonArtifacts says that no more files come.
func (j *Job) AbandonArtifacts() ([]events.Event, error) {
	switch {
	case !j.state.Final() || j.artifacts.closed:
		return nil, nil
	case j.artifacts.files == nil:
		return one(events.JobArtifactsAbandoned{Epoch: j.epoch, Reason: "no_upload"})
	}
	return one(events.JobArtifactsAbandoned{Epoch: j.epoch, Reason: "incomplete"})
}
