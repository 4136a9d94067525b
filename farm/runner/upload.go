package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"os"
	"time"
)

// Limits of an upload.
const (
	uploadTimeout = time.Hour // after which the service abandons the upload
	uploadBytes   = 64 << 20  // of one request, approximately
	digestTries   = 3
)

type uploadAnswer struct {
	State string `json:"state"` // partial or complete
	Files []struct {
		ID      string  `json:"id"`
		State   string  `json:"state"`
		Missing []int64 `json:"missing"`
	} `json:"files"`
}

// A piece is one chunk of a file.
type piece struct {
	file manifestFile
	n    int64
}

func (p piece) size() int64 { return min(p.file.ChunkBytes, p.file.Size-p.n*p.file.ChunkBytes) }

// upload uploads the artifacts of a job and retries with backoff. It returns true when it is over,
// successfully or not, and false if the supervisor is about to exit.
func (s *Supervisor) upload(ctx context.Context, j *job, m manifest) bool {
	select {
	case s.uploads <- struct{}{}:
		defer func() { <-s.uploads }()
	case <-ctx.Done():
		return false
	}
	late, digests := time.Now().Add(uploadTimeout), 0
	for failures := 0; ; failures++ {
		progress, err := s.sendMissing(ctx, j, m)
		switch {
		case err == nil:
			s.log.Info("artifacts uploaded", "job", j.name(), "files", len(m.Files))
			return true
		case ctx.Err() != nil:
			return false
		case j.isDropped():
			return true
		}
		var r *Refusal
		if errors.As(err, &r) && r.Code == "artifact_digest_mismatch" {
			digests++
		}
		if isFinal(r) || digests == digestTries || time.Now().After(late) {
			s.log.Error("artifacts were not uploaded", "job", j.name(), "err", err)
			return true
		}
		s.log.Warn("upload of artifacts", "job", j.name(), "err", err)
		if progress {
			failures = 0
		}
		if waitFor(ctx, s.cfg.Backoff(failures)) != nil {
			return false
		}
	}
}

// isFinal reports whether the service, or a proxy before it, will never accept the files. Too large
// files, for example, are not sent again.
func isFinal(r *Refusal) bool {
	switch {
	case r == nil || r.Status >= 500 || r.Status == 429 || r.Status == 401 || r.Status == 408:
		return false
	case r.Code == "farm_job_not_finished", r.Code == "upload_incomplete", r.Code == "artifact_digest_mismatch":
		return false
	}
	return true
}

// sendMissing asks which pieces are missing and sends them, until none are.
func (s *Supervisor) sendMissing(ctx context.Context, j *job, m manifest) (progress bool, err error) {
	answer, err := s.postArtifacts(ctx, j, m, nil)
	for err == nil && answer.State != "complete" {
		pieces := nextPieces(m, answer)
		if len(pieces) == 0 {
			return progress, errors.New("the service says neither that the upload is complete nor what is missing")
		}
		if answer, err = s.postArtifacts(ctx, j, m, pieces); err == nil {
			progress = true
		}
	}
	return progress, err
}

// nextPieces returns the missing pieces to send in the next request.
func nextPieces(m manifest, a uploadAnswer) (list []piece) {
	files := map[string]manifestFile{}
	for _, f := range m.Files {
		files[f.ID] = f
	}
	var bytes int64
	for _, f := range a.Files {
		for _, n := range f.Missing {
			p := piece{files[f.ID], n}
			if p.file.ID == "" || n < 0 || p.size() < 0 || bytes >= uploadBytes {
				continue
			}
			bytes += p.size()
			list = append(list, p)
		}
	}
	return list
}

// postArtifacts sends the manifest and pieces.
func (s *Supervisor) postArtifacts(ctx context.Context, j *job, m manifest, pieces []piece) (a uploadAnswer, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	form := multipart.NewWriter(to)
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = to.CloseWithError(writeForm(form, Folder(j.dir).path(filesFolder), m, pieces)) // the reader returns the error
	}()
	err = s.farm.call(ctx, "POST", "/api/v1/farm/jobs/"+j.job+"/artifacts", form.FormDataContentType(), from, &a)
	_ = from.CloseWithError(io.ErrClosedPipe) // ends the writer
	<-written
	return a, err
}

// writeForm writes the manifest as the first part, and each piece as a part named <file>.<number>.
func writeForm(form *multipart.Writer, folder string, m manifest, pieces []piece) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="manifest"`}, "Content-Type": {"application/json"},
	})
	if err == nil {
		_, err = part.Write(text)
	}
	for _, p := range pieces {
		if err != nil {
			break
		}
		err = p.write(form, folder)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return fmt.Errorf("write upload: %w", err)
	}
	return nil
}

func (p piece) write(form *multipart.Writer, folder string) error {
	f, err := os.Open(Folder(folder).path(p.file.ID))
	if err != nil {
		return fmt.Errorf("open artifact: %w", err)
	}
	defer f.Close()
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {fmt.Sprintf(`form-data; name="%s.%d"; filename="%s.%d"`, p.file.ID, p.n, p.file.ID, p.n)},
		"Content-Type":        {"application/octet-stream"},
	})
	if err != nil {
		return fmt.Errorf("write part: %w", err)
	}
	if n, err := io.Copy(part, io.NewSectionReader(f, p.n*p.file.ChunkBytes, p.size())); err != nil || n != p.size() {
		return fmt.Errorf("write part: %w", errors.Join(err, errShort(n, p.size())))
	}
	return nil
}

func errShort(got, want int64) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("the artifact has %d bytes of %d", got, want)
}
