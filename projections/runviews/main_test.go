package runviews_test

import (
	"testing"

	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
