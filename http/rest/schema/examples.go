package schema

import (
	"time"

	"svc/events"
	"svc/projections"
)

// All examples of the OpenAPI document describe one small workspace. Each noun's examples are view rows
// in its file, rendered by the code that renders answers, so that they agree with each other. This file
// has the values that nouns share.

// Values of the examples.
const (
	ExampleID   = "019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"
	ExampleTime = "2026-11-20T23:56:25.123Z"
	ExampleHead = "9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"
	ExampleSeq  = 4182 // of the workspace's log
)

// An Object is an example of a request body, or of an answer without a named type.
type Object map[string]any

// ExampleAda is the Owner of the workspace.
var ExampleAda = events.Actor{Type: events.ByUser, ID: ExampleNo(2), Name: "ada@acme.example"}

// ExamplePage is the first page of a list.
var ExamplePage = Paging{Limit: 25}

// ExampleNo returns ExampleID with n as its last byte.
func ExampleNo(n byte) events.ID {
	id, err := events.ParseID(ExampleID)
	if err != nil {
		panic(err)
	}
	id[len(id)-1] = n
	return id
}

// ExampleAt returns the time that is minutes before ExampleTime.
func ExampleAt(minutes int) time.Time {
	at, err := time.Parse(time.RFC3339, ExampleTime)
	if err != nil {
		panic(err)
	}
	return at.Add(-time.Duration(minutes) * time.Minute)
}

// ExampleZoe is a member of the workspace.
var ExampleZoe = projections.Member{
	ID: ExampleNo(4), User: ExampleNo(5), Name: "Zoë Brandt", Email: "zoe@acme.example", AvatarURL: "https://avatars.example.com/u/583231",
	Role: events.Maintainer, JoinedAt: ExampleAt(8500), LastActiveAt: new(ExampleAt(3)),
}

// ExampleRepo is the repository of the example runs.
var ExampleRepo = events.Repo{ID: ExampleNo(3), Name: "acme/web"}

// ExampleAcme is the workspace.
var ExampleAcme = projections.Workspace{ID: ExampleNo(1), Name: "Acme", Slug: "acme", CreatedAt: ExampleAt(9000)}
