package audit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/rest/door"
	"svc/test/pgtest"
	"svc/test/world"
)

// Compares an export of 1,000,000 records with a COPY of the same rows. Run it alone: go test ./http/rest/audit
// -run=^$ -bench=Million -benchtime=1x
func BenchmarkExportMillionRecords(b *testing.B) {
	const n = 1_000_000
	db := pgtest.New(b)
	workspace := world.FillLog(b, db, n)
	_, err := db.Exec(b.Context(), `analyze events`)
	require.NoError(b, err)
	for _, format := range []string{"ndjson", "csv"} {
		b.Run(format, func(b *testing.B) {
			e := newExporter(b, door.Pace{Timeout: testTimeout}, func(context.Context) *export { return newExport(db, workspace, format, n) })
			for b.Loop() {
				res, err := http.Get(e.URL)
				require.NoError(b, err)
				size, err := io.Copy(io.Discard, res.Body)
				require.NoError(b, err)
				require.NoError(b, res.Body.Close())
				b.SetBytes(size)
				e.waitEnded(b)
			}
		})
	}
	b.Run("copy to stdout", func(b *testing.B) {
		for b.Loop() {
			conn, err := db.Acquire(b.Context())
			require.NoError(b, err)
			size := &counter{}
			_, err = conn.Conn().PgConn().CopyTo(b.Context(), size, fmt.Sprintf(`copy (
				select * from events where workspace_id = '%s' order by seq) to stdout`, workspace))
			conn.Release()
			require.NoError(b, err)
			b.SetBytes(size.bytes)
		}
	})
}

type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) { c.bytes += int64(len(p)); return len(p), nil }
