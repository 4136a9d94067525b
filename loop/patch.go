package loop

import (
	"regexp"
	"slices"
	"strings"
)

// fence matches the first line of a fenced block with a diff.
var fence = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})[ \t]*(diff|patch)[ \t]*$")

// patchOf returns the diffs in the fenced blocks of a text, one after the other. It is "" if there
// is none. A block that is not closed counts for nothing.
func patchOf(text string) string {
	var out, block strings.Builder
	var end string // of the block; "" outside
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		bare := strings.TrimRight(line, "\n")
		switch m := fence.FindStringSubmatch(bare); {
		case end == "" && m != nil:
			end = m[1]
			block.Reset()
		case end == "":
		case strings.TrimSpace(bare) == end:
			out.WriteString(block.String())
			end = ""
		default:
			block.WriteString(bare + "\n")
		}
	}
	return out.String()
}

// patchedFiles returns the files that a diff names, for people: what it really changes is told by
// the commit.
func patchedFiles(diff string) (files []string) {
	for line := range strings.Lines(diff) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "+++ ")
		if !ok {
			name, ok = strings.CutPrefix(strings.TrimSpace(line), "--- ")
		}
		name, _, _ = strings.Cut(name, "\t")
		if len(name) > 2 && (name[:2] == "a/" || name[:2] == "b/") {
			name = name[2:]
		}
		if ok && name != "/dev/null" && !slices.Contains(files, name) && len(files) < maxPlanned {
			files = append(files, name)
		}
	}
	return files
}

// maxPlanned is how many files a plan names.
const maxPlanned = 100
