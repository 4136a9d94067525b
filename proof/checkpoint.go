package proof

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// A checkpoint states the content of a workspace's log when it had Size records. Its text has three
// lines, as in other transparency logs: the origin, which is host/workspace; the size; and the root
// in base64. Further lines mean nothing: earlier builds wrote "authenticated" into a fourth one.
type checkpoint struct {
	Origin string
	Size   int64
	Root   tlog.Hash
}

func (c checkpoint) text() string { return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root) }

// openCheckpoint parses a signed note about a workspace's log. It returns an error if the note is
// not signed by the key or is about another log. The final newline may be missing, because $(…) of a
// shell drops it.
func openCheckpoint(text string, verifier note.Verifier, workspace events.ID) (c checkpoint, err error) {
	n, err := note.Open([]byte(strings.TrimSuffix(text, "\n")+"\n"), note.VerifierList(verifier))
	if err != nil {
		return c, err
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) < 4 {
		return c, fmt.Errorf("checkpoint of %d lines", len(lines)-1)
	}
	c.Origin = lines[0]
	if !strings.HasSuffix(c.Origin, "/"+workspace.String()) {
		return c, errors.New("checkpoint of another log")
	}
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return c, fmt.Errorf("read size of checkpoint: %w", err)
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return c, errors.New("root of a checkpoint is no hash")
	}
	c.Root = tlog.Hash(root)
	return c, nil
}

// workspaceOf returns the workspace that a checkpoint is about, without verifying the signature.
func workspaceOf(text string) (workspace events.ID, err error) {
	origin, _, _ := strings.Cut(text, "\n")
	_, id, _ := strings.Cut(origin, "/")
	if workspace, err = events.ParseID(id); err != nil {
		return workspace, errors.New("the checkpoint is malformed: want a signed note of host/workspace, size and root")
	}
	return workspace, nil
}
