package farm

import (
	"slices"

	"svc/events"
	"svc/fault"
)

// artifacts are the files that a job produced. They are uploaded after it has finished.
type artifacts struct {
	declared bool
	files    []events.JobArtifact
	stored   map[events.ID]bool
	complete bool
	closed   bool // complete, abandoned, or the job ended without a report of its runner
	removed  bool // the stored files were removed
}

// expect sets how many files will be uploaded.
func (a *artifacts) expect(files int) {
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
	case events.JobArtifactsRemoved:
		a.removed = true
	}
}

// closeArtifacts records that no more files come. If fails is true, the job fails.
func (j *Job) closeArtifacts(fails bool) {
	j.artifacts.closed = true
	if fails {
		j.state = events.JobStateFailed
	}
}

// checkUpload returns an error unless the runner may upload files of the job. A runner that
// does not have the job gets the same error as for a job that does not exist.
func (j *Job) checkUpload(runner events.ID, epoch int) error {
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

// DeclareArtifacts records which files the runner will upload. Repeating the same list
// returns no event; another list is refused.
func (j *Job) DeclareArtifacts(runner events.ID, epoch int, files []events.JobArtifact) ([]events.Event, error) {
	if err := j.checkUpload(runner, epoch); err != nil {
		return nil, err
	}
	a := &j.artifacts
	same := a.declared && slices.Equal(a.files, files)
	switch {
	case same && (a.complete || !a.closed) && !a.removed:
		return nil, nil
	case a.closed:
		return nil, ErrArtifactsClosed
	case len(files) == 0:
		return nil, fault.Field("files", "must name a file")
	case a.declared:
		return nil, fault.Field("files", "must be those that were declared before")
	case slices.ContainsFunc(files, func(f events.JobArtifact) bool { return !j.wantsArtifact(f.Name) }):
		return nil, fault.Field("files", "must be of artifacts that the job asks for")
	}
	return oneEvent(events.JobArtifactsDeclared{Epoch: epoch, Files: files, Bytes: bytesOf(files)})
}

// wantsArtifact reports whether the job's spec has an artifact of that name.
func (j *Job) wantsArtifact(name string) bool {
	return slices.ContainsFunc(j.spec.artifacts, func(a jobArtifactTerms) bool { return a.name == name })
}

func bytesOf(files []events.JobArtifact) (sum int64) {
	for _, f := range files {
		sum += f.Size
	}
	return sum
}

// StoreArtifacts records that declared files were uploaded completely. With the last one
// the artifacts are complete; the job then fails if it lacks an artifact that it requires.
func (j *Job) StoreArtifacts(runner events.ID, epoch int, ids []events.ID) (list []events.Event, err error) {
	if err := j.checkUpload(runner, epoch); err != nil {
		return nil, err
	}
	a := &j.artifacts
	listed := map[events.ID]bool{}
	for _, id := range ids {
		i := slices.IndexFunc(a.files, func(f events.JobArtifact) bool { return f.ID == id })
		switch {
		case i < 0:
			return nil, fault.Field("files", "must be declared first")
		case a.stored[id] || listed[id]:
			continue
		case a.closed:
			return nil, ErrArtifactsClosed
		}
		listed[id] = true
		list = append(list, events.JobArtifactStored{Epoch: epoch, File: a.files[i]})
	}
	if len(list) > 0 && len(a.stored)+len(list) == len(a.files) {
		list = append(list, events.JobArtifactsCompleted{
			Epoch: epoch, Files: len(a.files), Bytes: bytesOf(a.files), Missing: j.missingArtifacts(a.isDeclared),
		})
	}
	return list, nil
}

// AbandonArtifacts records that no more files come. A job that had succeeded fails if it
// lacks artifacts that it requires.
func (j *Job) AbandonArtifacts() ([]events.Event, error) {
	if !j.state.Final() || j.artifacts.closed {
		return nil, nil
	}
	e := events.JobArtifactsAbandoned{Epoch: j.epoch, Reason: "incomplete", Missing: j.missingArtifacts(j.artifacts.isStored)}
	if !j.artifacts.declared {
		e.Reason = "no_upload"
	}
	return oneEvent(e)
}

// RemoveArtifacts records that the stored files are removed, for their age. It returns no event if
// there are none, or more may come.
func (j *Job) RemoveArtifacts() ([]events.Event, error) {
	a := &j.artifacts
	if !a.closed || a.removed || len(a.stored) == 0 {
		return nil, nil
	}
	e := events.JobArtifactsRemoved{Epoch: j.epoch, Reason: "age"}
	for _, f := range a.files {
		if a.stored[f.ID] {
			e.Files, e.Bytes, e.IDs = e.Files+1, e.Bytes+f.Size, append(e.IDs, f.ID)
		}
	}
	return oneEvent(e)
}

// missingArtifacts returns the required artifacts that are missing, if the job has succeeded.
func (j *Job) missingArtifacts(there func(name string) bool) (names []string) {
	if j.state != events.JobStateSucceeded {
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
	for _, a := range j.spec.artifacts {
		if a.required {
			names = append(names, a.name)
		}
	}
	return names
}

// isDeclared reports whether files of an artifact were declared.
func (a *artifacts) isDeclared(name string) bool {
	return slices.ContainsFunc(a.files, func(f events.JobArtifact) bool { return f.Name == name })
}

// isStored reports whether files of an artifact were declared and all of them stored.
func (a *artifacts) isStored(name string) bool {
	lost := func(f events.JobArtifact) bool { return f.Name == name && !a.stored[f.ID] }
	return a.isDeclared(name) && !slices.ContainsFunc(a.files, lost)
}
