package seed

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// An Issue is an open issue of a demonstration repository. The body of most has a patch in a fenced
// block, which applies to the repository.
type Issue struct {
	Repo   string // owner/name
	Number int
	Title  string
	Body   string
	Labels []string
	At     time.Time
}

// firstIssue is the number of the first open issue of each repository. It is beyond those of the runs
// that the demonstration begins with, and of their pull requests, which are a thousand higher.
const firstIssue = 2001

// issues are files with a title, a line of labels, an empty line, and the body.
//
//go:embed issues
var issues embed.FS

// Issues returns the open issues of each repository in the order of their numbers.
func Issues() (list []Issue) {
	for _, r := range Repositories() {
		for n := 1; ; n++ {
			text, err := fs.ReadFile(issues, path.Join("issues", r.Name, fmt.Sprintf("%d.txt", n)))
			if err != nil {
				break
			}
			title, rest, _ := strings.Cut(string(text), "\n")
			labels, body, _ := strings.Cut(rest, "\n\n")
			list = append(list, Issue{
				Repo: r.Name, Number: firstIssue + n - 1, Title: title, Body: body, Labels: strings.Split(labels, ", "),
				At: r.At.Add(time.Duration(n) * 24 * time.Hour),
			})
		}
	}
	return list
}
