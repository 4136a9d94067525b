package seed

import (
	"embed"
	"io/fs"
	"strings"
	"time"
)

// A Repository is a demonstration repository for a code host.
type Repository struct {
	Name    string // owner/name
	Files   map[string][]byte
	Author  string // name <address>
	At      time.Time
	Message string
}

// repositories have file names that end in .txt, so that no tool takes them for part of this module.
//
//go:embed repositories
var repositories embed.FS

// Repositories returns the repositories that the demonstration's runs and jobs name, and those that it works on.
func Repositories() (list []Repository) {
	for _, w := range []struct {
		owner string
		repos []string
	}{{"ada@acme.example", acmeRepos}, {"ada@acme.example", connectedRepos}, {"greta@globex.example", globexRepos}} {
		for _, name := range w.repos {
			list = append(list, Repository{
				Name: name, Files: filesOf("repositories/" + name), Author: nameOf(w.owner) + " <" + w.owner + ">",
				At: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), Message: "Begin",
			})
		}
	}
	return list
}

// The history of the demonstration is of acmeRepos and globexRepos, which are not connected: runs of theirs stay as they
// are. make run connects connectedRepos.
var (
	acmeRepos      = []string{"acme/web", "acme/api", "acme/infra"}
	connectedRepos = []string{"acme/handbook", "acme/hello", "acme/units"}
	globexRepos    = []string{"globex/site"}
)

func nameOf(email string) string {
	for _, p := range People() {
		if p.Email == email {
			return p.Name
		}
	}
	return email
}

func filesOf(folder string) map[string][]byte {
	files := map[string][]byte{}
	err := fs.WalkDir(repositories, folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := repositories.ReadFile(path)
		files[strings.TrimSuffix(strings.TrimPrefix(path, folder+"/"), ".txt")] = text
		return err
	})
	if err != nil {
		panic(err) // the files are embedded
	}
	return files
}
