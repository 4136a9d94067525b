package audit

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"svc/ui/client"
	"svc/ui/page"
)

// export streams an export from the service to the browser.
func export(v *page.Visit, w http.ResponseWriter) error {
	f := parseQuery(v)
	if f.problem != "" {
		return &client.Refused{Status: http.StatusUnprocessableEntity, Message: f.problem}
	}
	params := f.exportParams()
	if v.Query("all") != "" {
		params = &client.ExportAuditParams{}
	}
	params.Format = client.ExportAuditParamsFormat(v.Query("format"))
	resp, err := v.API.ExportAudit(v.Context(), params, fromSite(v.Request))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = client.CheckResponse(resp, nil)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for _, name := range []string{"Content-Type", "Content-Disposition"} {
		w.Header().Set(name, resp.Header.Get(name))
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("copy the export: %w", err)
	}
	return nil
}

// fromSite forwards Sec-Fetch-Site to the service, which refuses exports that another site
// caused: each is recorded in the log.
func fromSite(r *http.Request) client.RequestEditorFn {
	return func(_ context.Context, to *http.Request) error {
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
			to.Header.Set("Sec-Fetch-Site", site)
		}
		return nil
	}
}
