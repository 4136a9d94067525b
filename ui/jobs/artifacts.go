package jobs

import (
	"fmt"
	"io"
	"net/http"
	"slices"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

func rawLog(v *page.Visit, w http.ResponseWriter) error {
	attempt := v.QueryNumber("attempt")
	resp, err := v.API.GetJobLog(v.Context(), v.PathValue("id"), &client.GetJobLogParams{Attempt: client.Optional(attempt)})
	return streamFile(w, resp, err, `attachment; filename="job.log"`)
}

func download(v *page.Visit, w http.ResponseWriter) error {
	resp, err := v.API.GetArtifact(v.Context(), v.PathValue("id"), v.PathValue("artifact"), nil)
	return streamFile(w, resp, err, "")
}

// streamFile streams a file from the service to the browser. A browser always saves it and
// never shows it as a page of the app, whatever its content.
func streamFile(w http.ResponseWriter, resp *http.Response, err error, disposition string) error {
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = client.CheckResponse(resp, nil)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	for _, name := range []string{"Content-Length", "Content-Disposition"} {
		if value := resp.Header.Get(name); value != "" {
			h.Set(name, value)
		}
	}
	if disposition != "" {
		h.Set("Content-Disposition", disposition)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("copy the file: %w", err)
	}
	return nil
}

// attemptOf returns the number of the attempt that stored an artifact, "—" if unknown.
func (d jobData) attemptOf(a client.Artifact) string {
	for _, attempt := range d.Job.Attempts {
		if attempt.Epoch == a.Epoch {
			return kit.Digits(attempt.Attempt)
		}
	}
	return "—"
}

// pendingArtifacts returns the artifacts of an active job that have no stored file yet.
func (d jobData) pendingArtifacts() (list []client.JobArtifactSpec) {
	if !isActive(string(d.Job.State)) {
		return nil
	}
	for _, spec := range d.Job.Spec.Artifacts {
		if !slices.ContainsFunc(d.Artifacts.Items, func(a client.Artifact) bool { return a.Name == spec.Name }) {
			list = append(list, spec)
		}
	}
	return list
}

// keepCondition describes when an artifact is kept.
func keepCondition(spec client.JobArtifactSpec) string {
	text := "if it succeeds"
	if spec.When != nil && *spec.When == client.JobArtifactSpecWhenAlways {
		text = "always"
	}
	if spec.Required != nil && *spec.Required {
		text += ", required"
	}
	return text
}

// leftOutText says why a file or link that an artifact matches was not uploaded.
func leftOutText(reason string) string {
	if text := leftOutTexts[reason]; text != "" {
		return text
	}
	return kit.Words(reason)
}

var leftOutTexts = map[string]string{
	"path_refused":      "some system cannot store its path",
	"path_collision":    "some system takes its path for that of another file",
	"unreadable":        "it cannot be read",
	"too_deep":          "it is nested too deep",
	"not_a_file":        "it is no regular file",
	"link_outside":      "a link out of the working directory, or into .git",
	"link_broken":       "a link that leads nowhere",
	"link_loop":         "a link to a folder that it is in",
	"link_too_many":     "too much is behind links",
	"link_not_followed": "links in the output folder are not followed",
}
