package runner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"svc/farm/artifacts"
	"svc/farm/runner/executor"
)

// artifacts handles an upload: the manifest first, then chunks by name.
func (f *farm) artifacts(w http.ResponseWriter, r *http.Request) {
	if !f.certified(w, r) {
		return
	}
	f.mu.Lock()
	f.uploads++
	n, hook := f.uploads, f.uploading
	f.mu.Unlock()
	if hook != nil && hook(n, w, r) {
		return
	}
	form, err := r.MultipartReader()
	if err != nil {
		refuseWith(w, 415, "unsupported_media_type")
		return
	}
	part, err := form.NextPart()
	if err != nil || part.FormName() != "manifest" {
		refuseWith(w, 422, "validation_failed")
		return
	}
	var m executor.Manifest
	text, _ := io.ReadAll(part)
	if _, err := artifacts.ReadManifest(bytes.NewReader(text), 1<<30); err != nil {
		f.problem("manifest: %v", err)
		refuseWith(w, 422, "validation_failed")
		return
	}
	_ = json.Unmarshal(text, &m)
	k := attemptKey{r.PathValue("id"), m.Epoch}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			refuseWith(w, 400, "upload_incomplete")
			return
		}
		data, err := io.ReadAll(part)
		if err != nil {
			refuseWith(w, 400, "upload_incomplete")
			return
		}
		f.mu.Lock()
		f.jobs[k].files[part.FormName()] = data
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.jobs[k]
	if j == nil || j.end() == nil {
		refuseWith(w, 409, "farm_job_not_finished")
		return
	}
	if j.manifest != nil && !slices.Equal(j.manifest.Files, m.Files) {
		f.problem("another manifest")
	}
	j.manifest = &m
	answer(w, 200, f.uploaded(j))
}

func (f *farm) uploaded(j *farmJob) map[string]any {
	var files []map[string]any
	j.complete = true
	for _, file := range j.manifest.Files {
		var whole []byte
		var missing []int64
		for n := int64(0); n*file.ChunkBytes < file.Size; n++ {
			data, ok := j.files[fmt.Sprintf("%s.%d", file.ID, n)]
			if !ok {
				missing = append(missing, n)
			}
			whole = append(whole, data...)
		}
		state := "complete"
		if sum := sha256.Sum256(whole); len(missing) > 0 {
			state, j.complete = "partial", false
		} else if hex.EncodeToString(sum[:]) != file.SHA256 {
			f.problem("digest of %s", file.Path)
		}
		files = append(files, map[string]any{"id": file.ID, "state": state, "missing": missing})
	}
	if j.complete {
		return map[string]any{"state": "complete", "files": files}
	}
	return map[string]any{"state": "partial", "files": files}
}
