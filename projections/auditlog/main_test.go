package auditlog_test

import (
	"testing"

	"svc/events"
	"svc/test/pgtest"
	"svc/test/world"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var web = events.Repo{ID: world.NewID(), Name: "acme/web"}
