package events

import "time"

// ArtifactUploadWindow is how long after the end of a job its files are accepted.
const ArtifactUploadWindow = time.Hour

// A JobArtifact is a file that a job produced.
type JobArtifact struct {
	ID     ID     `json:"id"`
	Name   string `json:"name"` // of the artifact in the job's spec
	Path   string `json:"path"` // relative to the working directory
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Mode   int    `json:"mode,omitempty"`
}

// JobArtifactsDeclared says which files a runner is about to upload.
type JobArtifactsDeclared struct {
	jobEvent
	Epoch int           `json:"epoch"`
	Files []JobArtifact `json:"files"`
	Bytes int64         `json:"bytes"`
}

func (JobArtifactsDeclared) Kind() string { return "job.artifacts_declared" }

// JobArtifactStored says that a file was uploaded completely and that its digest is right.
type JobArtifactStored struct {
	jobEvent
	Epoch int         `json:"epoch"`
	File  JobArtifact `json:"file"`
}

func (JobArtifactStored) Kind() string { return "job.artifact_stored" }

// JobArtifactsCompleted says that all files were uploaded. A job that had succeeded fails
// if required artifacts are not among them.
type JobArtifactsCompleted struct {
	jobEvent
	Epoch   int      `json:"epoch"`
	Files   int      `json:"files"`
	Bytes   int64    `json:"bytes"`
	Missing []string `json:"missing,omitempty"` // as in JobArtifactsAbandoned
}

func (JobArtifactsCompleted) Kind() string                 { return "job.artifacts_completed" }
func (e JobArtifactsCompleted) changes(r *Record) []Change { return artifactChanges(r, e.FailsJob()) }

// FailsJob reports whether e turns a job that had succeeded into a failed one.
func (e JobArtifactsCompleted) FailsJob() bool { return len(e.Missing) > 0 }

// JobArtifactsAbandoned says that the files which have not been uploaded will not come. A
// job that had succeeded fails if it lacks required artifacts.
type JobArtifactsAbandoned struct {
	jobEvent
	Epoch   int      `json:"epoch"`
	Reason  string   `json:"reason"`            // no_upload, incomplete
	Missing []string `json:"missing,omitempty"` // required artifacts that are missing; empty unless the job had succeeded
}

func (JobArtifactsAbandoned) Kind() string                 { return "job.artifacts_abandoned" }
func (e JobArtifactsAbandoned) changes(r *Record) []Change { return artifactChanges(r, e.FailsJob()) }

// FailsJob reports whether e turns a job that had succeeded into a failed one.
func (e JobArtifactsAbandoned) FailsJob() bool { return len(e.Missing) > 0 }

// JobArtifactsRemoved says that the stored files of a job are removed, and cannot be read any more.
type JobArtifactsRemoved struct {
	jobEvent
	Epoch  int    `json:"epoch"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"` // age
	IDs    []ID   `json:"fileIds"`
}

func (JobArtifactsRemoved) Kind() string { return "job.artifacts_removed" }
func (e JobArtifactsRemoved) changes(*Record) []Change {
	return []Change{{"epoch", nil, e.Epoch}, {"files", nil, e.Files}, {"bytes", nil, e.Bytes}, {"reason", nil, e.Reason}}
}

// artifactChanges returns the fields of r and, if fails is true, the change of the job's state to
// failed.
func artifactChanges(r *Record, fails bool) []Change {
	list := r.allFields()
	if fails {
		list = append(list, Change{"state", JobStateSucceeded, JobStateFailed})
	}
	return list
}

// ArtifactMissing is the reason of a job that failed because it lacks a required artifact.
const ArtifactMissing = "artifact_missing"
