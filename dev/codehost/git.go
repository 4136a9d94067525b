package codehost

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Repositories are served by git's "smart" protocol version 0, which all releases support. Each has
// one commit, so a clone always gets everything. Pushing is not supported.

const (
	uploadPack = "git-upload-pack"
	// capabilities includes shallow clones, which need no special handling, and wants by commit id.
	capabilities = "shallow no-progress allow-tip-sha1-in-want allow-reachable-sha1-in-want symref=HEAD:refs/heads/main agent=svc-codehost"
)

var errNotGit = errors.New("malformed request")

func (h *host) repository(w http.ResponseWriter, r *http.Request) (packed, bool) {
	name := r.PathValue("owner") + "/" + strings.TrimSuffix(r.PathValue("name"), ".git")
	p, ok := h.repositories[name]
	if !ok {
		http.Error(w, "Repository not found.", http.StatusNotFound) // git prints the text
	}
	return p, ok
}

// refs advertises the refs of a repository.
func (h *host) refs(w http.ResponseWriter, r *http.Request) {
	p, ok := h.repository(w, r)
	if !ok {
		return
	}
	if service := r.URL.Query().Get("service"); service != uploadPack {
		http.Error(w, "Repositories of the development code host can be cloned, and nothing else.", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = io.WriteString(w, pktLine("# service="+uploadPack)+flushPkt+ // fails if the client has gone
		pktLine(p.head+" HEAD\x00"+capabilities)+pktLine(p.head+" refs/heads/main")+flushPkt)
}

// upload sends the pack.
func (h *host) upload(w http.ResponseWriter, r *http.Request) {
	p, ok := h.repository(w, r)
	if !ok {
		return
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, errNotGit.Error(), http.StatusBadRequest)
			return
		}
		body = io.LimitReader(z, maxForm)
	}
	in, err := readWanted(bufio.NewReader(body))
	if err != nil {
		http.Error(w, errNotGit.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	w.Header().Set("Cache-Control", "no-cache")
	answer := ""
	for _, id := range in.ids {
		if id != p.head {
			_, _ = io.WriteString(w, pktLine("ERR upload-pack: not our ref "+id))
			return
		}
	}
	if in.shallow { // the commit has no parent, so nothing is cut off
		answer = flushPkt
	}
	if in.rounds {
		answer += pktLine("NAK")
	}
	_, _ = io.WriteString(w, answer)
	if in.done {
		_, _ = w.Write(p.pack)
	}
}

// wanted is a request for objects.
type wanted struct {
	ids     []string
	shallow bool // a depth was given
	rounds  bool // lines followed the wants
	done    bool // this is the last round
}

// readWanted reads the wants up to a flush, and then the haves, which it ignores.
func readWanted(from *bufio.Reader) (in wanted, err error) {
	for wants := true; ; {
		text, kind, err := readLine(from)
		switch {
		case errors.Is(err, io.EOF) && !wants:
			return in, nil
		case err != nil:
			return in, err
		}
		verb, rest, _ := strings.Cut(text, " ")
		switch {
		case kind == flushed && wants:
			if wants = false; len(in.ids) == 0 {
				return in, errNotGit
			}
		case kind == flushed:
			in.rounds = true
		case wants && verb == "want":
			id, _, _ := strings.Cut(rest, " ")
			if _, err := hex.DecodeString(id); err != nil || len(id) != 40 {
				return in, errNotGit
			}
			in.ids = append(in.ids, id)
		case wants && verb == "deepen":
			in.shallow = true
		case wants && (verb == "shallow" || verb == "filter"), !wants && verb == "have":
		case !wants && verb == "done":
			in.rounds, in.done = true, true
			return in, nil
		default:
			return in, errNotGit
		}
	}
}

const flushPkt = "0000"

// pktLine encodes text as a pkt-line: its length in hex precedes it.
func pktLine(text string) string { return fmt.Sprintf("%04x%s\n", len(text)+5, text) }

// Kinds of pkt-lines.
const (
	ordinary = iota
	flushed
)

func readLine(from *bufio.Reader) (text string, kind int, err error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return "", ordinary, err
	}
	size, err := strconv.ParseUint(string(head[:]), 16, 16)
	switch {
	case err != nil || size > 0 && size <= 4 || size > 1000:
		return "", ordinary, errNotGit
	case size == 0:
		return "", flushed, nil
	}
	rest := make([]byte, size-4)
	if _, err := io.ReadFull(from, rest); err != nil {
		return "", ordinary, errNotGit
	}
	return strings.TrimSuffix(string(rest), "\n"), ordinary, nil
}
