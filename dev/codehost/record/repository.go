package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"svc/atomicfile"
	"svc/dev/codehost/bare"
)

// A Repository is a bare repository with its record. The lock protects the record and writes of refs.
type Repository struct {
	sync.Mutex
	Bare bare.Repo
	File string // of the record
	*Record
}

// OpenRepository reads the record of a file beside a repository.
func OpenRepository(file string) (*Repository, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &Repository{Bare: bare.Repo{Dir: strings.TrimSuffix(file, ".json") + ".git"}, File: file, Record: &Record{}}
	if err := json.Unmarshal(text, r.Record); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return r, nil
}

// Save writes the record.
func (r *Repository) Save() error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(r.Record); err != nil {
		return fmt.Errorf("save %s: %w", r.Name, err)
	}
	return atomicfile.Write(r.File, text.Bytes(), 0o600)
}

// Repositories are the host's repositories. Their order is that of their files.
type Repositories struct {
	mu    sync.RWMutex
	list  []*Repository
	names map[string]*Repository
}

// Add adds a repository.
func (l *Repositories) Add(r *Repository) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r)
	slices.SortFunc(l.list, func(a, b *Repository) int { return strings.Compare(a.File, b.File) })
	if l.names == nil {
		l.names = map[string]*Repository{}
	}
	l.names[r.Name] = r
}

// All returns all repositories.
func (l *Repositories) All() []*Repository {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.list)
}

// ByID returns the repository with an id, or nil.
func (l *Repositories) ByID(id int64) *Repository {
	for _, r := range l.All() {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Has reports whether a repository has a name.
func (l *Repositories) Has(name string) bool {
	_, known := l.Find(name)
	return known
}

// Find returns a repository by its name.
func (l *Repositories) Find(name string) (r *Repository, known bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	r, known = l.names[strings.ToLower(name)]
	return r, known
}
