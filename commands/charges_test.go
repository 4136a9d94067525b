package commands

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// unlimited are the commands that need no unit of a daily quota. See limits.go for why a person cannot repeat
// them without end.
var unlimited = []string{
	"AcceptInvitation", "RejectInvitation", "AnswerDecision", "RefreshMember", "RemoveMember", "RevokeInvitation", "WithdrawEnrollment",
	"RevokeServiceAccount", "RevokeRunner", "RemoveFarmSecret", "CancelRun", "CancelJob", "EndSessions", "SubmitJob", "RetryJob",
	"RegisterUser", "PauseRepo", "DisconnectRepo", "DeleteWorkspace",
}

// Every command needs a unit of a daily quota, one that nobody has thought of too, unless it is exempt.
func TestEveryCommandIsChargedOrExempt(t *testing.T) {
	var daily Daily
	limits := reflect.ValueOf(&daily).Elem()
	for i := range limits.NumField() {
		if limits.Field(i).Kind() == reflect.Int {
			limits.Field(i).SetInt(1)
		}
	}
	handler, commands := reflect.TypeFor[*Handler](), 0
	var free []string
	for i := range handler.NumMethod() {
		method := handler.Method(i)
		if method.Type.NumIn() != 3 || method.Type.In(2).Kind() != reflect.Struct {
			continue
		}
		command := method.Type.In(2)
		if _, ok := command.FieldByName("Meta"); !ok {
			continue
		}
		commands++
		if len(daily.charges(Meta{}, reflect.Zero(command).Interface(), nil)) == 0 {
			free = append(free, method.Name)
		}
	}
	require.Greater(t, commands, 50)
	require.ElementsMatch(t, unlimited, free)
}
