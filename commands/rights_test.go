package commands_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/fault"
)

// otherRefusals are the answers of deniable commands that look at something else before the actor's role.
var otherRefusals = map[string]*fault.Fault{
	"AcceptInvitation": aggregates.ErrNoInvitation, "RejectInvitation": aggregates.ErrNoInvitation, // is it to the actor's address
	"SendInvitation": fault.ErrValidation,
	"AnswerDecision": aggregates.ErrNoDecision, // whose kind determines the right
}

// A deniable command looks at the actor's role itself, as the guard of its route may have found a former
// one. Somebody who is not a member is told that there is no such workspace.
func TestDeniableCommandsRefuseStrangers(t *testing.T) {
	m := newTeam(t)
	requireRefused(t, m, m.nobody)
}

// In a deleted workspace everybody is a stranger, but Owners may restore it.
func TestDeniableCommandsRefuseAllInDeletedWorkspace(t *testing.T) {
	m := newTeam(t)
	m.deleteWorkspace(t, m.other)
	requireRefused(t, m, m.owner, "RestoreWorkspace")
}

func requireRefused(t *testing.T, m *team, by person, but ...string) {
	t.Helper()
	handler, deniable, found := reflect.ValueOf(m.Handler), reflect.TypeFor[commands.Deniable](), 0
	for i := range handler.NumMethod() {
		method := handler.Type().Method(i)
		if method.Type.NumIn() != 3 || !method.Type.In(2).Implements(deniable) || method.Type.In(2).Kind() != reflect.Struct ||
			slices.Contains(but, method.Name) {
			continue
		}
		found++
		c := reflect.New(method.Type.In(2)).Elem()
		c.FieldByName("Meta").Set(reflect.ValueOf(by.in(m.id)))
		results := handler.Method(i).Call([]reflect.Value{reflect.ValueOf(t.Context()), c})
		err, _ := results[len(results)-1].Interface().(error)
		want := fault.ErrTenantNotFound
		if other, ok := otherRefusals[method.Name]; ok {
			want = other
		}
		require.ErrorIs(t, err, want, method.Name)
	}
	require.Greater(t, found, len(otherRefusals))
}
