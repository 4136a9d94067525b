package commands

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/events"
)

// unlimited are the commands that need no unit of a daily quota. See personalLimits for why a person cannot repeat
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
	handler, commands := reflect.TypeFor[*Handler](), map[reflect.Type]bool{}
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
		commands[command] = true
		if len(daily.charges(events.ID{1}, events.ID{2}, reflect.Zero(command).Interface(), nil)) == 0 {
			free = append(free, method.Name)
		}
	}
	require.Greater(t, len(commands), 50)
	require.ElementsMatch(t, unlimited, free)
	for command := range personalLimits {
		assert.True(t, commands[command], "personalLimits has %s, which is no command", command)
	}
}
