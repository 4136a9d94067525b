package rest

import (
	"time"

	"svc/events"
)

// The examples of the OpenAPI document are of one small workspace: each noun's are in
// its file, rows of the views of which the code that makes answers makes answers, so
// that no example contradicts another. Here is what they share.

const (
	exampleID   = "019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"
	exampleTime = "2026-11-20T23:56:25.123Z"
	exampleHead = "9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"
)

// object is an example of what is sent, or of an answer whose type has no name.
type object map[string]any

var exampleAda = events.Actor{Type: events.ByUser, ID: exampleNo(2), Name: "ada@acme.example"}

var examplePage = Paging{Limit: 25}

// exampleNo is exampleID with another end.
func exampleNo(n byte) events.ID {
	id, err := events.ParseID(exampleID)
	if err != nil {
		panic(err)
	}
	id[len(id)-1] = n
	return id
}

// exampleAt is so many minutes before exampleTime.
func exampleAt(minutes int) time.Time {
	at, err := time.Parse(time.RFC3339, exampleTime)
	if err != nil {
		panic(err)
	}
	return at.Add(-time.Duration(minutes) * time.Minute)
}
