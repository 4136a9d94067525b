package rest

import (
	"testing"
	"time"

	"svc/test/pgtest"
	"svc/test/world"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const testTimeout = time.Minute

var epoch = world.Epoch
