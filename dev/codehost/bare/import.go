package bare

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A First is the first commit of a repository. Its id depends only on these fields.
type First struct {
	Files   map[string][]byte
	Author  string // name <address>
	At      time.Time
	Message string
}

// Import makes a branch with one commit.
func (r Repo) Import(ctx context.Context, to string, f First) error {
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/%s\ncommitter %s %d +0000\n", to, f.Author, f.At.Unix())
	message := f.Message + "\n"
	fmt.Fprintf(&in, "data %d\n%s\n", len(message), message)
	for _, name := range slices.Sorted(maps.Keys(f.Files)) {
		body := f.Files[name]
		fmt.Fprintf(&in, "M %s inline %s\ndata %d\n%s\n", fileMode(body), name, len(body), body)
	}
	_, err := r.run(ctx, call{args: []string{"fast-import", "--quiet", "--date-format=raw"}, stdin: in.Bytes()})
	return err
}

// fileMode returns the file mode: scripts are executable.
func fileMode(body []byte) string {
	if bytes.HasPrefix(body, []byte("#!")) {
		return "100755"
	}
	return "100644"
}
