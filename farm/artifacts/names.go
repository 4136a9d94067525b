package artifacts

import (
	"fmt"
	"strconv"
	"strings"
)

// An objectName is the parsed name of an object.
type objectName struct {
	kind     objectKind
	artifact string
	attempt  int
	chunk    int64
	token    string
}

type objectKind int

const (
	otherObject   objectKind = iota
	sealObject               // <artifact>
	failureObject            // <artifact>.<attempt>
	chunkObject              // <artifact>.<attempt>.<chunk>.<token>
)

func failureName(artifact string, attempt int) string { return fmt.Sprintf("%s.%d", artifact, attempt) }

func chunkName(artifact string, attempt int, n int64, token string) string {
	return fmt.Sprintf("%s.%d.%d.%s", artifact, attempt, n, token)
}

func parseName(name string) objectName {
	parts := strings.Split(name, ".")
	o := objectName{artifact: parts[0]}
	if len(parts) == 1 {
		o.kind = sealObject
		return o
	}
	attempt, err := strconv.ParseUint(parts[1], 10, 31)
	if err != nil {
		return o
	}
	o.attempt = int(attempt)
	switch len(parts) {
	case 2:
		o.kind = failureObject
	case 4:
		n, err := strconv.ParseUint(parts[2], 10, 63)
		if err != nil {
			return o
		}
		o.kind, o.chunk, o.token = chunkObject, int64(n), parts[3]
	}
	return o
}
