package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"svc/dev/codehost"
	"svc/dev/codehost/people"
	"svc/dev/seed"
	"svc/fault"
)

// readPeople reads people from a file. Without a file it returns the people of the demonstration.
func readPeople(file string) ([]people.Person, error) {
	if file == "" {
		return demonstrationPeople(), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("SVC_CODEHOST_PEOPLE: %w", err)
	}
	defer f.Close()
	var list []people.Person
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	err = d.Decode(&list)
	return list, fault.Wrap(err, "SVC_CODEHOST_PEOPLE: read %s", file)
}

func demonstrationPeople() []people.Person {
	var list []people.Person
	for i, p := range seed.People() {
		list = append(list, people.Person{
			ID: int64(i + 1), Name: p.Name, Role: string(p.Role),
			Emails: []people.Email{{Address: p.Email, Primary: true, Verified: true}},
		})
	}
	return list
}

// repositories returns the repositories of the demonstration with their open issues. The people of a
// workspace may push to its repositories.
func repositories() (list []codehost.Repository) {
	for _, r := range seed.Repositories() {
		owner, _, _ := strings.Cut(r.Name, "/")
		in := codehost.Repository{Name: r.Name, Files: r.Files, Author: r.Author, At: r.At, Message: r.Message}
		for _, p := range demonstrationPeople() {
			if strings.HasSuffix(p.Emails[0].Address, "@"+owner+".example") {
				in.Writers = append(in.Writers, people.Login(p))
			}
		}
		for _, i := range seed.Issues() {
			if i.Repo == r.Name {
				in.Issues = append(in.Issues, codehost.Issue{
					Number: i.Number, Title: i.Title, Body: i.Body, Labels: i.Labels, Author: in.Writers[0], At: i.At,
				})
			}
		}
		list = append(list, in)
	}
	return list
}
