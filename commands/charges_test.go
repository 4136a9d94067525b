package commands

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

const (
	ownLog    = "it is stored in the workspace's own log, and requests are limited"
	oncePer   = "it uses up what another command was charged for"
	notPeople = "programs and runners send it, and no person"
	bounded   = "a workspace has only so many or so much of it at a time"
	ending    = "it ends something that was charged for, which must always be possible"
	ofSession = "sign-ins and registrations are limited by address"
)

// uncharged are the commands that need no unit of a daily quota, and why.
var uncharged = map[string]string{
	"AcceptInvitation": oncePer, "RejectInvitation": oncePer, "RegisterRunner": oncePer,

	"AddMember": ownLog, "UpdateMember": ownLog, "RefreshMember": ownLog, "RemoveMember": ownLog,
	"RenameWorkspace": ownLog, "AnswerDecision": ownLog, "ExportAudit": ownLog, "ShowCertificate": ownLog,
	"QueueRun": ownLog, "QueueIssue": ownLog, "CancelRun": ownLog, "CancelJob": ownLog,
	"DrainRunner": ownLog, "ResumeRunner": ownLog,

	"SubmitJob": bounded, "SetFarmSecret": bounded, "RemoveFarmSecret": bounded,

	"RevokeInvitation": ending, "WithdrawEnrollment": ending, "RevokeServiceAccount": ending, "RevokeRunner": ending,

	"RegisterUser": ofSession, "RefreshUser": ofSession, "RecordSignIn": ofSession, "SignIn": ofSession, "EndSessions": ofSession,

	"RecordRun": notPeople, "AcceptJob": notPeople, "DeclineJob": notPeople, "ReportJob": notPeople, "LoseLease": notPeople,
	"TimeOutJob": notPeople, "SealJobLog": notPeople, "DeclareArtifacts": notPeople, "StoreArtifacts": notPeople,
	"AbandonArtifacts": notPeople, "RemoveArtifacts": notPeople, "LeaseJob": notPeople, "ConnectRunner": notPeople,
	"DisconnectRunner": notPeople, "RetireRunner": notPeople, "RenewCertificate": notPeople, "NoteStaleToken": notPeople,
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
		require.NotEqual(t, charged, uncharged[method.Name] != "", "%s: either Daily.charges or uncharged has it", method.Name)
	}
	require.Greater(t, len(commands), 50)
	for name := range uncharged {
		require.True(t, commands[name], "uncharged has %s, which is no command", name)
	}
}
