package migrations

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A file is a migration of this build.
type file struct {
	name        string
	version     int
	description string
	checksum    int32
	sql         string // without a byte order mark
}

var fileName = regexp.MustCompile(`^([0-9]{4})_([a-z0-9][a-z0-9_]*)\.sql$`)

// load returns the files of s, sorted by version. A .sql file with a malformed name is an
// error, because skipping it silently would leave the schema incomplete.
func (s Set) load() ([]file, error) {
	names, err := fs.Glob(s.Files, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	files := make([]file, 0, len(names))
	for _, name := range names {
		f, err := s.read(name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.version, b.version) })
	for i := 1; i < len(files); i++ {
		if a, b := files[i-1], files[i]; a.version == b.version {
			return nil, refusal(fmt.Sprintf("Found more than one migration with version %d: %s and %s", a.version, a.name, b.name))
		}
	}
	return files, nil
}

func (s Set) read(name string) (file, error) {
	parts := fileName.FindStringSubmatch(name)
	if parts == nil {
		return file{}, fmt.Errorf("migration %s: the name must be NNNN_description.sql in lower case", name)
	}
	version, err := strconv.Atoi(parts[1])
	if err != nil || version == 0 {
		return file{}, fmt.Errorf("migration %s: versions start at 0001", name)
	}
	data, err := fs.ReadFile(s.Files, name)
	if err != nil {
		return file{}, fmt.Errorf("read migration %s: %w", name, err)
	}
	if !utf8.Valid(data) {
		return file{}, fmt.Errorf("migration %s: not UTF-8", name)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	return file{
		name:        name,
		version:     version,
		description: strings.ReplaceAll(parts[2], "_", " "),
		checksum:    checksum(data),
		sql:         string(data),
	}, nil
}

// checksum returns Flyway's checksum for SQL: CRC-32 (IEEE) of the lines without line ends,
// as a signed number. LF, CRLF and CR all end a line, so it is the same on every platform.
func checksum(sql []byte) int32 {
	sum := crc32.NewIEEE()
	for line := range bytes.FieldsFuncSeq(sql, func(r rune) bool { return r == '\n' || r == '\r' }) {
		sum.Write(line)
	}
	return int32(sum.Sum32()) // Flyway stores the bits as a signed number
}

// outsideTransaction reports whether the file asks to run outside a transaction.
func (f file) outsideTransaction() bool {
	first, _, _ := strings.Cut(f.sql, "\n")
	return strings.TrimSpace(first) == "-- no transaction"
}
