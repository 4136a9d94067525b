package members

import (
	"net/http"
	"strconv"
	"time"

	"svc/http/reply"
	"svc/ui/client"
	"svc/ui/page"
)

// export writes the members that match the search as CSV, page by page of the service.
func export(v *page.Visit, w http.ResponseWriter) error {
	params := searchParams(v)
	list, err := client.Decode[client.MemberList](v.API.ListMembers(v.Context(), params))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="members-`+v.Workspace.Slug+`.csv"`)
	text := reply.AppendCSV(nil, "name", "email", "role", "canApproveLoops", "lastActiveAt", "joinedAt")
	for {
		for _, m := range list.Items {
			text = appendRow(text, m)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		if list.NextCursor == nil {
			return nil
		}
		text, params.Cursor = text[:0], list.NextCursor
		if list, err = client.Decode[client.MemberList](v.API.ListMembers(v.Context(), params)); err != nil {
			return err
		}
	}
}

func appendRow(text []byte, m client.Member) []byte {
	active := ""
	if m.LastActiveAt != nil {
		active = m.LastActiveAt.UTC().Format(time.RFC3339)
	}
	return reply.AppendCSV(text, m.Name, m.Email, string(m.Role), strconv.FormatBool(m.CanApproveLoops), active,
		m.JoinedAt.UTC().Format(time.RFC3339))
}
