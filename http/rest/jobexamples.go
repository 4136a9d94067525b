package rest

import (
	"encoding/json"
	"time"

	"svc/aggregates"
	"svc/events"
	"svc/projections"
)

// The examples of this noun are a queued job, and the same job after it has run.

var exampleJobID, exampleRunnerID = exampleNo(60), exampleNo(61)

func exampleSubmission() object {
	return object{
		"idempotencyKey": "ci-4711-test", "name": "unit tests",
		"repo":     object{"id": exampleRepo.ID, "commit": exampleHead},
		"steps":    []object{{"name": "test", "run": "go test ./...", "env": object{"CI": "true"}}},
		"requires": object{"labels": []string{"os=linux"}},
		"sandbox":  object{"kind": "bubblewrap", "memoryMiB": 4096},
		"retry":    object{"maxAttempts": 2},
	}
}

func exampleJobSpec() events.JobSpec {
	spec, err := aggregates.CheckJob(events.JobSpec{
		Name: "unit tests", Repo: &events.JobRepo{ID: exampleRepo.ID, Name: exampleRepo.Name, Commit: exampleHead},
		Steps:    []events.JobStep{{Name: "test", Run: "go test ./...", Env: map[string]string{"CI": "true"}}},
		Requires: events.JobRequires{Labels: []string{"os=linux"}}, Sandbox: events.JobSandbox{MemoryMiB: 4096},
		Retry: events.JobRetry{MaxAttempts: 2}, Timeouts: events.JobTimeouts{CancelGraceSeconds: defaultCancelGrace},
	})
	if err != nil {
		panic(err)
	}
	return spec
}

func exampleQueuedJob() projections.Job {
	return projections.Job{
		ID: exampleJobID, Name: "unit tests", State: events.JobStateQueued, Repo: &exampleRepo.ID, RepoName: exampleRepo.Name,
		Priority: "normal", MaxAttempts: 2, SubmittedBy: events.Actor{Type: events.ByService, Name: "service:ci-bot"},
		SubmittedAt: exampleAt(10), QueuedAt: exampleAt(10), NotBefore: exampleAt(10), ExpiresAt: exampleAt(10).Add(24 * time.Hour),
		Artifacts: projections.JobArtifacts{State: "none"},
	}
}

func exampleJobDetail() jobDetail {
	j, code := exampleQueuedJob(), 0
	j.State, j.Epoch, j.Attempt, j.Runner, j.RunnerName = events.JobStateSucceeded, 1, 1, &exampleRunnerID, "builder-1"
	j.StartedAt, j.FinishedAt = new(exampleAt(9)), new(exampleAt(7))
	j.Outcome = &projections.JobOutcome{Reported: "succeeded", ExitCode: &code, CPUMs: 64_100, MaxRSSBytes: 512_000_000}
	j.Attempts = []projections.JobAttempt{{
		Epoch: 1, Attempt: 1, Runner: exampleRunnerID, RunnerName: "builder-1", LeasedAt: exampleAt(10), StartedAt: j.StartedAt,
		EndedAt: j.FinishedAt, Ended: "succeeded",
		Steps: []projections.JobStep{{Status: "succeeded", StartedAt: j.StartedAt, FinishedAt: j.FinishedAt, ExitCode: &code}},
		Log:   &projections.JobLog{Bytes: 18_233, Chunks: 9, Integrity: "verified"},
	}}
	return newJobDetail(newJob(j, jobWait{}), j, exampleJobSpec())
}

func exampleJobEvents() jobEventsBody {
	e := events.JobLeased{Epoch: 1, Attempt: 1, Runner: exampleRunnerID, RunnerName: "builder-1", AcceptBy: exampleAt(9)}
	data, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return newJobEvents([]events.Record{{
		ID: exampleNo(62), Seq: 4181, Version: 2, At: exampleAt(10), Event: e, Data: data,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}},
	}}, 1)
}
