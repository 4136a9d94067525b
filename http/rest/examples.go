package rest

import (
	"time"

	"svc/events"
)

// All examples of the OpenAPI document describe one small workspace. Each noun's examples are view rows
// in its file, rendered by the code that renders answers, so that they agree with each other. This file
// has the shared values.

const (
	exampleID   = "019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"
	exampleTime = "2026-11-20T23:56:25.123Z"
	exampleHead = "9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"
)

// An object is an example of a request body, or of an answer without a named type.
type object map[string]any

var exampleAda = events.Actor{Type: events.ByUser, ID: exampleNo(2), Name: "ada@acme.example"}

var examplePage = Paging{Limit: 25}

// exampleNo returns exampleID with n as its last byte.
func exampleNo(n byte) events.ID {
	id, err := events.ParseID(exampleID)
	if err != nil {
		panic(err)
	}
	id[len(id)-1] = n
	return id
}

// exampleAt returns the time that is minutes before exampleTime.
func exampleAt(minutes int) time.Time {
	at, err := time.Parse(time.RFC3339, exampleTime)
	if err != nil {
		panic(err)
	}
	return at.Add(-time.Duration(minutes) * time.Minute)
}
