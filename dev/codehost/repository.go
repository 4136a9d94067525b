package codehost

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/sha1" // git's object names
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Repository can be cloned. It has one branch, main, with one commit. The commit's id depends
// only on these fields, so it is the same at each start.
type Repository struct {
	Name    string // owner/name
	Files   map[string][]byte
	Author  string // name <address>
	At      time.Time
	Message string
}

// An object is a git object with its id.
type object struct {
	id   [sha1.Size]byte
	kind byte // as in packs
	body []byte
}

const (
	kindCommit = 1
	kindTree   = 2
	kindBlob   = 3
)

var kindNames = map[byte]string{kindCommit: "commit", kindTree: "tree", kindBlob: "blob"}

func newObject(kind byte, body []byte) object {
	h := sha1.New()
	_, _ = fmt.Fprintf(h, "%s %d\x00", kindNames[kind], len(body))
	_, _ = h.Write(body)
	return object{[sha1.Size]byte(h.Sum(nil)), kind, body}
}

// A packed is a repository as a single pack.
type packed struct {
	head string // id of the commit in hex
	pack []byte
}

var (
	repositoryName = regexp.MustCompile(`^[a-z0-9-]{1,39}/[a-z0-9._-]{1,100}$`)
	filePath       = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
)

// pack encodes r.
func (r Repository) pack() (packed, error) {
	switch {
	case !repositoryName.MatchString(r.Name) || strings.HasSuffix(r.Name, ".git"):
		return packed{}, fmt.Errorf("repository %q: want owner/name", r.Name)
	case len(r.Files) == 0:
		return packed{}, fmt.Errorf("repository %s has no files", r.Name)
	}
	for name := range r.Files {
		if !filePath.MatchString(name) {
			return packed{}, fmt.Errorf("repository %s: %q is no path", r.Name, name)
		}
	}
	root, list := tree(r.Files, ".")
	at := fmt.Sprintf("%s %d +0000", r.Author, r.At.Unix())
	commit := newObject(kindCommit, fmt.Appendf(nil, "tree %x\nauthor %s\ncommitter %s\n\n%s\n", root, at, at, r.Message))
	text, err := packOf(append(list, commit))
	return packed{hex.EncodeToString(commit.id[:]), text}, err
}

// tree returns the id of a folder, and the objects of the folder and its contents.
func tree(files map[string][]byte, folder string) (id [sha1.Size]byte, list []object) {
	type entry struct {
		mode, name string
		id         [sha1.Size]byte
	}
	entries := map[string]entry{} // by git's sort key
	for _, file := range sortedKeys(files) {
		rest, inside := file, true
		if folder != "." {
			rest, inside = strings.CutPrefix(file, folder+"/")
		}
		name, _, below := strings.Cut(rest, "/")
		switch {
		case !inside:
		case !below:
			blob := newObject(kindBlob, files[file])
			list = append(list, blob)
			entries[name] = entry{fileMode(files[file]), name, blob.id}
		case entries[name+"/"].name == "":
			sub, objects := tree(files, path.Join(folder, name))
			list = append(list, objects...)
			entries[name+"/"] = entry{"40000", name, sub}
		}
	}
	var body []byte
	for _, key := range sortedKeys(entries) {
		e := entries[key]
		body = fmt.Appendf(body, "%s %s\x00", e.mode, e.name)
		body = append(body, e.id[:]...)
	}
	made := newObject(kindTree, body)
	return made.id, append(list, made)
}

func sortedKeys[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fileMode returns the file mode: scripts are executable.
func fileMode(body []byte) string {
	if bytes.HasPrefix(body, []byte("#!")) {
		return "100755"
	}
	return "100644"
}

// packOf encodes objects as a pack of version 2, without deltas and duplicates.
func packOf(list []object) ([]byte, error) {
	slices.SortStableFunc(list, func(a, b object) int { return cmp.Or(cmp.Compare(a.kind, b.kind), bytes.Compare(a.id[:], b.id[:])) })
	list = slices.CompactFunc(list, func(a, b object) bool { return a.id == b.id })
	var out bytes.Buffer
	out.WriteString("PACK")
	_ = binary.Write(&out, binary.BigEndian, [2]uint32{2, uint32(len(list))}) // never fails on a buffer
	for _, o := range list {
		size := len(o.body)
		first := o.kind<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			out.WriteByte(first | 0x80)
			first = byte(size & 0x7f)
		}
		out.WriteByte(first)
		z := zlib.NewWriter(&out)
		if _, err := z.Write(o.body); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
	}
	sum := sha1.Sum(out.Bytes())
	out.Write(sum[:])
	return out.Bytes(), nil
}
