package commands

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/events"
)

// Why a person cannot repeat a command without end, although it needs no unit of a daily quota.
const (
	onceEach  = "it can be done once for each thing that another command was charged for"
	notPeople = "programs and runners send it, and no person"
	byVolume  = "the bytes of jobs that a workspace submits in a day are limited, and a small job counts as one KiB"
	ending    = "it ends something that was charged for, which must always be possible"
	signUp    = "an account at a code host registers once"
)

// uncharged are the commands that need no unit of a daily quota, and why.
var uncharged = map[string]string{
	"AcceptInvitation": onceEach, "RejectInvitation": onceEach, "RegisterRunner": onceEach, "AnswerDecision": onceEach,
	"RefreshMember": onceEach,

	"SubmitJob": byVolume,

	"RevokeInvitation": ending, "WithdrawEnrollment": ending, "RevokeServiceAccount": ending, "RevokeRunner": ending,
	"RemoveMember": ending, "CancelRun": ending, "CancelJob": ending, "RemoveFarmSecret": ending, "EndSessions": ending,

	"RegisterUser": signUp, "SignIn": signUp,

	"AddMember": notPeople, "QueueRun": notPeople,
	"RecordRun": notPeople, "AcceptJob": notPeople, "DeclineJob": notPeople, "ReportJob": notPeople, "LoseLease": notPeople,
	"TimeOutJob": notPeople, "SealJobLog": notPeople, "DeclareArtifacts": notPeople, "StoreArtifacts": notPeople,
	"AbandonArtifacts": notPeople, "RemoveArtifacts": notPeople, "LeaseJob": notPeople, "ConnectRunner": notPeople,
	"DisconnectRunner": notPeople, "RetireRunner": notPeople, "RenewCertificate": notPeople, "ShowCertificate": notPeople,
	"NoteStaleToken": notPeople,
}

// Whoever adds a command decides whether it needs a unit of a daily quota.
func TestEveryCommandIsChargedOrExempt(t *testing.T) {
	var daily Daily
	limits := reflect.ValueOf(&daily).Elem()
	for i := range limits.NumField() {
		if limits.Field(i).Kind() == reflect.Int {
			limits.Field(i).SetInt(1)
		}
	}
	handler, commands := reflect.TypeFor[*Handler](), map[string]bool{}
	for i := range handler.NumMethod() {
		method := handler.Method(i)
		if method.Type.NumIn() != 3 || method.Type.In(2).Kind() != reflect.Struct {
			continue
		}
		command := method.Type.In(2)
		if _, ok := command.FieldByName("Meta"); !ok {
			continue
		}
		commands[method.Name] = true
		charged := len(daily.charges(events.ID{1}, events.ID{2}, reflect.Zero(command).Interface(), nil)) > 0
		assert.NotEqual(t, charged, uncharged[method.Name] != "", "%s: either personalLimits or uncharged has it", method.Name)
	}
	require.Greater(t, len(commands), 50)
	for name := range uncharged {
		require.True(t, commands[name], "uncharged has %s, which is no command", name)
	}
}
