package farm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

var (
	uploader, otherUploader = id(90), id(91)

	tarFile  = events.JobArtifact{ID: id(92), Name: "dist", Path: "dist/app.tar", Size: 20, SHA256: "aa", Mode: 0o644}
	noteFile = events.JobArtifact{ID: id(93), Name: "dist", Path: "dist/NOTICE", Size: 3, SHA256: "bb"}
	twoFiles = []events.JobArtifact{tarFile, noteFile}

	uploadSubmitted = events.JobSubmitted{Spec: events.JobSpec{Name: "test", Artifacts: []events.JobArtifactSpec{{Name: "dist"}}}}
	uploadLeased    = []events.Event{uploadSubmitted, events.JobLeased{Epoch: 2, Attempt: 1, Runner: uploader}, events.JobAccepted{Epoch: 2}}
	uploadFinished  = after(uploadLeased, events.JobStarted{Epoch: 2, Seq: 1},
		events.JobFinished{Epoch: 2, Seq: 2, Outcome: events.JobStateSucceeded, Artifacts: 2})
	uploadDeclared = after(uploadFinished, events.JobArtifactsDeclared{Epoch: 2, Files: twoFiles, Bytes: 23})
	uploadHalfway  = after(uploadDeclared, events.JobArtifactStored{Epoch: 2, File: tarFile})
	uploadComplete = after(uploadHalfway, events.JobArtifactStored{Epoch: 2, File: noteFile},
		events.JobArtifactsCompleted{Epoch: 2, Files: 2, Bytes: 23})
	uploadAbandoned = after(uploadHalfway, events.JobArtifactsAbandoned{Epoch: 2, Reason: "incomplete"})

	lastDeclared = []events.Event{events.JobArtifactsDeclared{Epoch: 2, Files: twoFiles, Bytes: 23}}
)

func TestDeclareArtifacts(t *testing.T) {
	declare := func(runner events.ID, epoch int, files ...events.JobArtifact) func(*Job) ([]events.Event, error) {
		return func(j *Job) ([]events.Event, error) { return j.DeclareArtifacts(runner, epoch, files) }
	}
	changed := noteFile
	changed.SHA256 = "cc"
	foreign := noteFile
	foreign.Name = "logs"
	none := after(uploadLeased, events.JobFinished{Epoch: 2, Seq: 1, Outcome: events.JobStateSucceeded})
	lost := after(uploadLeased, events.JobLeaseExpired{Epoch: 2, Runner: uploader}, events.JobLost{Epoch: 2})
	again := after(uploadLeased, events.JobLeaseExpired{Epoch: 2, Runner: uploader}, events.JobRequeued{Epoch: 2})
	check(t, []spec[Job]{
		{name: "the runner says what it has", given: uploadFinished, when: declare(uploader, 2, twoFiles...), then: lastDeclared},
		{name: "again", given: uploadDeclared, when: declare(uploader, 2, twoFiles...)},
		{name: "again, in between", given: uploadHalfway, when: declare(uploader, 2, twoFiles...)},
		{name: "again, when all is there", given: uploadComplete, when: declare(uploader, 2, twoFiles...)},
		{name: "other files", given: uploadDeclared, when: declare(uploader, 2, tarFile, changed),
			err: fault.Field("files", "must be those that were declared before")},
		{name: "fewer", given: uploadDeclared, when: declare(uploader, 2, tarFile),
			err: fault.Field("files", "must be those that were declared before")},
		{name: "other files, when all is there", given: uploadComplete, when: declare(uploader, 2, tarFile), err: ErrArtifactsClosed},
		{name: "too late", given: uploadAbandoned, when: declare(uploader, 2, twoFiles...), err: ErrArtifactsClosed},
		{name: "none, and it had said so", given: none, when: declare(uploader, 2, twoFiles...), err: ErrArtifactsClosed},
		{name: "of a job that was lost", given: lost, when: declare(uploader, 2, twoFiles...), err: ErrArtifactsClosed},
		{name: "no artifact of the job", given: uploadFinished, when: declare(uploader, 2, tarFile, foreign),
			err: fault.Field("files", "must be of artifacts that the job asks for")},
		{name: "nothing", given: uploadFinished, when: declare(uploader, 2), err: fault.Field("files", "must name a file")},
		{name: "before the end", given: uploadLeased, when: declare(uploader, 2, twoFiles...), err: ErrJobNotFinished},
		{name: "an epoch before", given: uploadFinished, when: declare(uploader, 1, twoFiles...), err: ErrJobNotOwner},
		{name: "a later epoch", given: uploadFinished, when: declare(uploader, 3, twoFiles...), err: ErrJobNotOwner},
		{name: "another runner", given: uploadFinished, when: declare(otherUploader, 2, twoFiles...), err: ErrNoJob},
		{name: "another runner, of a job that goes on", given: uploadLeased, when: declare(otherUploader, 2, twoFiles...), err: ErrNoJob},
		{name: "the runner that had it before", given: again, when: declare(uploader, 2, twoFiles...), err: ErrNoJob},
		{name: "no job", when: declare(uploader, 2, twoFiles...), err: ErrNoJob},
	})
}

func TestStoreArtifacts(t *testing.T) {
	store := func(runner events.ID, epoch int, ids ...events.ID) func(*Job) ([]events.Event, error) {
		return func(j *Job) ([]events.Event, error) { return j.StoreArtifacts(runner, epoch, ids) }
	}
	first := events.JobArtifactStored{Epoch: 2, File: tarFile}
	rest := []events.Event{events.JobArtifactStored{Epoch: 2, File: noteFile}, events.JobArtifactsCompleted{Epoch: 2, Files: 2, Bytes: 23}}
	check(t, []spec[Job]{
		{name: "a file is whole", given: uploadDeclared, when: store(uploader, 2, tarFile.ID), then: []events.Event{first}},
		{name: "again", given: uploadHalfway, when: store(uploader, 2, tarFile.ID)},
		{name: "the last one", given: uploadHalfway, when: store(uploader, 2, noteFile.ID), then: rest},
		{name: "the last one, among others", given: uploadHalfway, when: store(uploader, 2, tarFile.ID, noteFile.ID), then: rest},
		{name: "all at once, one twice", given: uploadDeclared, when: store(uploader, 2, tarFile.ID, tarFile.ID, noteFile.ID),
			then: after([]events.Event{first}, rest...)},
		{name: "all, when all is there", given: uploadComplete, when: store(uploader, 2, tarFile.ID, noteFile.ID)},
		{name: "too late", given: uploadAbandoned, when: store(uploader, 2, tarFile.ID, noteFile.ID), err: ErrArtifactsClosed},
		{name: "what was not declared", given: uploadDeclared, when: store(uploader, 2, id(99)),
			err: fault.Field("files", "must be declared first")},
		{name: "before anything was", given: uploadFinished, when: store(uploader, 2, tarFile.ID),
			err: fault.Field("files", "must be declared first")},
		{name: "another epoch", given: uploadDeclared, when: store(uploader, 1, tarFile.ID), err: ErrJobNotOwner},
		{name: "another runner", given: uploadDeclared, when: store(otherUploader, 2, tarFile.ID), err: ErrNoJob},
	})
}

func TestAbandonArtifacts(t *testing.T) {
	abandon := func(j *Job) ([]events.Event, error) { return j.AbandonArtifacts() }
	check(t, []spec[Job]{
		{name: "nothing came", given: uploadFinished, when: abandon,
			then: []events.Event{events.JobArtifactsAbandoned{Epoch: 2, Reason: "no_upload"}}},
		{name: "not all came", given: uploadHalfway, when: abandon,
			then: []events.Event{events.JobArtifactsAbandoned{Epoch: 2, Reason: "incomplete"}}},
		{name: "again", given: uploadAbandoned, when: abandon},
		{name: "all came", given: uploadComplete, when: abandon},
		{name: "the job goes on", given: uploadLeased, when: abandon},
		{name: "by force it left nothing", given: after(uploadLeased, events.JobCancelled{Epoch: 2, Forced: true}), when: abandon},
	})
}

// requiring returns the events of a job that requires dist, and logs as well if it fails.
func requiring(outcome events.JobState, more ...events.Event) []events.Event {
	return after([]events.Event{
		events.JobSubmitted{Spec: events.JobSpec{Name: "test", Artifacts: []events.JobArtifactSpec{
			{Name: "dist", When: "success", Required: true}, {Name: "notes", When: "always", Required: true},
			{Name: "logs", When: "failure", Required: true}, {Name: "extra", When: "always"},
		}}},
		events.JobLeased{Epoch: 2, Attempt: 1, Runner: uploader}, events.JobAccepted{Epoch: 2}, events.JobStarted{Epoch: 2, Seq: 1},
		events.JobFinished{Epoch: 2, Seq: 2, Outcome: outcome, Artifacts: 4},
	}, more...)
}

// A job that succeeded fails when artifacts that it requires will not come.
func TestAbandonRequiredArtifacts(t *testing.T) {
	notes, extra := noteFile, tarFile
	notes.ID, notes.Name = id(94), "notes"
	extra.ID, extra.Name = id(95), "extra"
	declared := events.JobArtifactsDeclared{Epoch: 2, Files: []events.JobArtifact{tarFile, noteFile, notes, extra}}
	stored := func(files ...events.JobArtifact) []events.Event {
		list := []events.Event{declared}
		for _, f := range files {
			list = append(list, events.JobArtifactStored{Epoch: 2, File: f})
		}
		return list
	}
	abandoned := func(reason string, missing ...string) []events.Event {
		return []events.Event{events.JobArtifactsAbandoned{Epoch: 2, Reason: reason, Missing: missing}}
	}
	abandon := func(j *Job) ([]events.Event, error) { return j.AbandonArtifacts() }
	check(t, []spec[Job]{
		{name: "nothing came", given: requiring(events.JobStateSucceeded), when: abandon, then: abandoned("no_upload", "dist", "notes")},
		{name: "a file of an artifact came, another not", given: requiring(events.JobStateSucceeded, stored(tarFile, notes)...), when: abandon,
			then: abandoned("incomplete", "dist")},
		{name: "all that is required came", given: requiring(events.JobStateSucceeded, stored(tarFile, noteFile, notes)...), when: abandon,
			then: abandoned("incomplete")},
		{name: "a required one was not declared", when: abandon, then: abandoned("incomplete", "notes"),
			given: requiring(events.JobStateSucceeded, events.JobArtifactsDeclared{Epoch: 2, Files: []events.JobArtifact{tarFile, extra}},
				events.JobArtifactStored{Epoch: 2, File: tarFile})},
		{name: "it had failed anyway", given: requiring(events.JobStateFailed), when: abandon, then: abandoned("no_upload")},
		{name: "it had been cancelled", given: requiring(events.JobStateCancelled), when: abandon, then: abandoned("no_upload")},
		{name: "it had run for too long", given: requiring(events.JobStateTimedOut), when: abandon, then: abandoned("no_upload")},
		{name: "again", given: requiring(events.JobStateSucceeded, abandoned("no_upload", "dist")...), when: abandon},
	})
}

// A job that succeeded fails when all declared files are stored but a required artifact is
// not among them.
func TestCompleteWithoutRequiredArtifacts(t *testing.T) {
	notes := noteFile
	notes.ID, notes.Name = id(94), "notes"
	given := func(outcome events.JobState, files ...events.JobArtifact) []events.Event {
		return requiring(outcome, events.JobArtifactsDeclared{Epoch: 2, Files: files})
	}
	store := func(files ...events.JobArtifact) func(*Job) ([]events.Event, error) {
		var ids []events.ID
		for _, f := range files {
			ids = append(ids, f.ID)
		}
		return func(j *Job) ([]events.Event, error) { return j.StoreArtifacts(uploader, 2, ids) }
	}
	stored := func(files []events.JobArtifact, missing ...string) (list []events.Event) {
		for _, f := range files {
			list = append(list, events.JobArtifactStored{Epoch: 2, File: f})
		}
		return append(list, events.JobArtifactsCompleted{Epoch: 2, Files: len(files), Bytes: bytesOf(files), Missing: missing})
	}
	both := []events.JobArtifact{tarFile, notes}
	check(t, []spec[Job]{
		{name: "one is missing", given: given(events.JobStateSucceeded, tarFile), when: store(tarFile), then: stored(both[:1], "notes")},
		{name: "the other is", given: given(events.JobStateSucceeded, notes), when: store(notes), then: stored(both[1:], "dist")},
		{name: "none is", given: given(events.JobStateSucceeded, both...), when: store(both...), then: stored(both)},
		{name: "it had failed anyway", given: given(events.JobStateFailed, tarFile), when: store(tarFile), then: stored(both[:1])},
	})
}

// Files are removed once no more of them come. After that none are accepted.
func TestRemoveArtifacts(t *testing.T) {
	remove := func(j *Job) ([]events.Event, error) { return j.RemoveArtifacts() }
	removed := events.JobArtifactsRemoved{Epoch: 2, Files: 1, Bytes: tarFile.Size, Reason: "age", IDs: []events.ID{tarFile.ID}}
	check(t, []spec[Job]{
		{name: "no files", given: uploadFinished, when: remove},
		{name: "more may come", given: uploadHalfway, when: remove},
		{name: "given up", given: uploadAbandoned, when: remove, then: []events.Event{removed}},
		{name: "again", given: after(uploadAbandoned, removed), when: remove},
		{name: "declared again", given: after(uploadComplete, removed), err: ErrArtifactsClosed, when: func(j *Job) ([]events.Event, error) {
			return j.DeclareArtifacts(uploader, 2, []events.JobArtifact{tarFile, noteFile})
		}},
	})
}

// The event that closes the artifacts decides the job's final state.
func TestJobFailsByArtifacts(t *testing.T) {
	for name, c := range map[string]struct {
		closing events.Event
		want    events.JobState
	}{
		"given up, and lacking": {events.JobArtifactsAbandoned{Epoch: 2, Missing: []string{"dist"}}, events.JobStateFailed},
		"given up":              {events.JobArtifactsAbandoned{Epoch: 2}, events.JobStateSucceeded},
		"whole, and lacking":    {events.JobArtifactsCompleted{Epoch: 2, Missing: []string{"dist"}}, events.JobStateFailed},
		"whole":                 {events.JobArtifactsCompleted{Epoch: 2}, events.JobStateSucceeded},
	} {
		var j Job
		for _, e := range requiring(events.JobStateSucceeded, c.closing) {
			j.Apply(e, events.Actor{ID: id(1)})
		}
		require.Equal(t, c.want, j.State(), name)
		list, err := j.AbandonArtifacts()
		require.NoError(t, err)
		require.Empty(t, list, name)
	}
}

// Files of artifacts that the job does not ask for are not awaited, and at least one file
// has to be announced if the job requires artifacts.
func TestFinishCountsArtifacts(t *testing.T) {
	for name, c := range map[string]struct {
		spec    []events.JobArtifactSpec
		files   int
		said    string
		outcome events.JobState
		want    int
	}{
		"none asked for":          {nil, 3, "succeeded", events.JobStateSucceeded, 0},
		"asked for":               {[]events.JobArtifactSpec{{Name: "dist"}}, 3, "succeeded", events.JobStateSucceeded, 3},
		"below none":              {[]events.JobArtifactSpec{{Name: "dist"}}, -1, "succeeded", events.JobStateSucceeded, 0},
		"required, and there":     {[]events.JobArtifactSpec{{Name: "dist", Required: true}}, 1, "succeeded", events.JobStateSucceeded, 1},
		"required, and not there": {[]events.JobArtifactSpec{{Name: "dist", Required: true}}, 0, "succeeded", events.JobStateFailed, 0},
		"required, and it failed": {[]events.JobArtifactSpec{{Name: "dist", Required: true}}, 0, "failed", events.JobStateFailed, 0},
		"required of one that failed": {[]events.JobArtifactSpec{{Name: "logs", When: "failure", Required: true}}, 0, "succeeded",
			events.JobStateSucceeded, 0},
		"required, and it was stopped": {[]events.JobArtifactSpec{{Name: "dist", Required: true}}, 0, "timed_out", events.JobStateTimedOut, 0},
	} {
		given := []events.Event{
			events.JobSubmitted{Spec: events.JobSpec{Name: "test", Artifacts: c.spec}},
			events.JobLeased{Epoch: 2, Attempt: 1, Runner: uploader}, events.JobStarted{Epoch: 2, Seq: 1},
		}
		want := events.JobFinished{Epoch: 2, Seq: 2, Reported: c.said, Outcome: c.outcome, Artifacts: c.want}
		if name == "required, and not there" {
			want.Reason = events.ArtifactMissing
		}
		check(t, []spec[Job]{{name: name, given: given, when: func(j *Job) ([]events.Event, error) {
			return j.Report(uploader, JobReport{Epoch: 2, Seq: 2, Event: events.JobFinished{Reported: c.said, Artifacts: c.files}}, noon)
		}, then: []events.Event{want}}})
	}
}
