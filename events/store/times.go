package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The bounds of times that are read by connections of [BoundTimes]. JSON has no year after 9999, in no time zone.
var (
	earliestTime = time.Time{}
	latestTime   = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// BoundTimes makes connections read times before the year 1 and after the year 9999, infinite ones too, as the
// nearest time that is not. No process writes such a time. If somebody else did, reading it would fail, and with
// it every request whose query finds that row. A [pgtype.Timestamptz] is not bounded: whoever reads one wants to know.
func BoundTimes(c *pgxpool.Config) {
	before := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		one := &pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: boundedTimes{&pgtype.TimestamptzCodec{}}}
		conn.TypeMap().RegisterType(one)
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID, Codec: &pgtype.ArrayCodec{ElementType: one},
		})
		if before != nil {
			return before(ctx, conn)
		}
		return nil
	}
}

// boundedTimes is the codec of connections of [BoundTimes].
type boundedTimes struct{ *pgtype.TimestamptzCodec }

// PlanScan implements [pgtype.Codec].
func (c boundedTimes) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, exact := target.(*pgtype.Timestamptz); exact {
		return c.TimestamptzCodec.PlanScan(m, oid, format, target)
	}
	if _, is := target.(pgtype.TimestamptzScanner); !is {
		return nil // pgx wraps a *time.Time and asks again
	}
	return boundedScan{c.TimestamptzCodec.PlanScan(m, oid, format, &pgtype.Timestamptz{})}
}

// boundedScan reads a time by an exact plan and bounds it.
type boundedScan struct{ exact pgtype.ScanPlan }

// Scan implements [pgtype.ScanPlan].
func (p boundedScan) Scan(src []byte, to any) error {
	var t pgtype.Timestamptz
	if err := p.exact.Scan(src, &t); err != nil {
		return err
	}
	switch {
	case !t.Valid:
	case t.InfinityModifier == pgtype.NegativeInfinity, t.InfinityModifier == pgtype.Finite && t.Time.Before(earliestTime):
		t = pgtype.Timestamptz{Time: earliestTime, Valid: true}
	case t.InfinityModifier == pgtype.Infinity, t.Time.After(latestTime):
		t = pgtype.Timestamptz{Time: latestTime, Valid: true}
	}
	return to.(pgtype.TimestamptzScanner).ScanTimestamptz(t)
}
