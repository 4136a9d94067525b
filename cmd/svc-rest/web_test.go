package main

import (
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/projections/fold"
)

// A view that is left out would fail at its first request.
func TestEveryViewHasADatabase(t *testing.T) {
	t.Parallel()
	db, follower := database{Pool: &pgxpool.Pool{}, lists: &pgxpool.Pool{}}, &fold.Follower{}
	for _, views := range []any{primary(db, follower), lists(db, follower)} {
		v := reflect.ValueOf(views)
		for i := range v.NumField() {
			require.False(t, v.Field(i).IsZero(), "%s.%s", v.Type(), v.Type().Field(i).Name)
		}
	}
}
