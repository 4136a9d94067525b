package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
	"svc/projections/farmviews"
)

func TestTokensDoNotSeeNamesOfPeople(t *testing.T) {
	t.Parallel()
	ada := events.Actor{Type: events.ByUser, ID: events.ID{1}, Name: "ada@acme.example"}
	bot := events.Actor{Type: events.ByService, ID: events.ID{2}, Name: "service:ci-bot"}
	token, person := &door.Caller{Token: &projections.ServiceToken{}}, &door.Caller{Person: &door.Person{}}

	face := schema.AuditActor{Type: ada.Type, ID: ada.ID.String(), Name: ada.Name, DisplayName: "Ada Lind",
		AvatarURL: "https://avatars.example.com/u/1"}
	require.Equal(t, face, person.RedactActor(face))
	require.Equal(t, schema.AuditActor{Type: ada.Type, ID: face.ID}, token.RedactActor(face))
	itself := schema.AuditActor{Type: bot.Type, ID: bot.ID.String(), Name: bot.Name}
	require.Equal(t, itself, token.RedactActor(itself))

	j := farmviews.Job{SubmittedBy: ada, Cancel: &farmviews.JobCancel{By: ada, Reason: "superseded"}}
	require.Equal(t, j, redactJob(person, j))
	told := redactJob(token, j)
	require.Empty(t, told.SubmittedBy.Name)
	require.Empty(t, told.Cancel.By.Name)
	require.Equal(t, "superseded", told.Cancel.Reason)
	require.Equal(t, ada.Name, j.Cancel.By.Name, "the job itself is unchanged")
	j = farmviews.Job{SubmittedBy: bot, Cancel: &farmviews.JobCancel{By: bot}}
	require.Equal(t, j, redactJob(token, j))

	s := &Server{Door: door.New(door.Config{Now: time.Now})} // without a database that knows names
	job, err := door.WithNames(door.WithCaller(t.Context(), token), s.Door, FarmJob{SubmittedBy: ada.Name}, (*FarmJob).names)
	require.NoError(t, err)
	require.Empty(t, job.SubmitterName)
	job, err = door.WithNames(door.WithCaller(t.Context(), person), s.Door, FarmJob{SubmittedBy: bot.Name}, (*FarmJob).names)
	require.NoError(t, err)
	require.Empty(t, job.SubmitterName)
}
