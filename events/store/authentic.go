package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

// An Authenticator proves that this service wrote a text in a certain place, with a key
// that the database does not have.
type Authenticator interface {
	MAC(place string, text []byte) ([]byte, error)
	// ShortMAC is MAC for what is stored in great numbers.
	ShortMAC(place string, text []byte) ([]byte, error)
	CheckMAC(place string, text, mac []byte) error
	// CurrentMAC reports whether mac is under the key that MAC uses.
	CurrentMAC(mac []byte) bool
}

// eventPlace separates the MACs of events from those of snapshots.
const eventPlace = "events"

// Authenticate makes s store a MAC of each event that it appends. Call it before the first
// Append.
func (s *Store) Authenticate(by Authenticator) { s.author = by }

// Permit makes s call permit before it appends, and before it uses or saves a snapshot. If permit
// returns an error, s stores nothing and returns the error. Call it before the first Append.
func (s *Store) Permit(permit func(context.Context) error) { s.permit = permit }

// ErrForeign says that an event was neither appended nor signed by this service.
var ErrForeign = errors.New("was not appended by this service")

// A loadCheck says how a store checks the events that it loads.
type loadCheck struct {
	by     Authenticator // nil: it does not
	signed func(context.Context, []events.Record) error
	log    *slog.Logger
}

// CheckLoads makes Load return an error if an event was not appended by this service, because
// decisions follow from what it returns. That is an event whose MAC is wrong, and for which
// signed returns an error that wraps [ErrForeign]. It is reported to log. Signed is asked about
// events of one log whose MACs cannot be checked: those of a build without MACs, and those under
// a key that was replaced. Call CheckLoads before the first Load.
func (s *Store) CheckLoads(by Authenticator, signed func(context.Context, []events.Record) error, log *slog.Logger) {
	s.loads = loadCheck{by, signed, log}
}

// An authoredRow is a row of events with its MAC. It has not been decoded.
type authoredRow struct {
	Row
	mac []byte
}

func scanAuthored(row pgx.CollectableRow) (r authoredRow, err error) {
	r.kind, err = scan(row, &r.record, &r.mac)
	return r, err
}

// read reads a page of a stream and checks its events.
func (c loadCheck) read(ctx context.Context, db Querier, p StreamPage) ([]events.Record, error) {
	rows, _ := db.Query(ctx, `
		select `+EventColumns+`, mac from events
		where workspace_id = $1 and stream = $2 and version > $3 order by version limit $4`, p.Workspace, p.Stream, p.Version, p.Limit)
	list, err := pgx.CollectRows(rows, scanAuthored) // reports errors of Query as well
	if err == nil {
		err = c.check(ctx, list, p.Version)
	}
	records := make([]events.Record, len(list))
	for i := 0; i < len(list) && err == nil; i++ {
		records[i], err = decodeStrict(list[i].record, list[i].kind)
	}
	return records, fault.Wrap(err, "read stream %s at %d", p.Stream, p.Version)
}

// check returns an error unless this service appended or signed all events of a list, and they follow a version
// of their stream without a gap.
func (c loadCheck) check(ctx context.Context, list []authoredRow, version int) error {
	var unverified []events.Record
	for i := range list {
		r := &list[i].record
		if version++; r.Version != version {
			return c.refuse(ctx, r, fmt.Errorf("event %d %w: no event %d of its stream precedes it", r.Seq, ErrForeign, version))
		}
		if CheckEventMAC(c.by, r.Workspace, r.ID, r.Stream, int64(r.Version), int64(r.Schema), list[i].kind, r.Meta, r.Data, list[i].mac) != nil {
			r.Event = events.Undecoded{Name: list[i].kind}
			unverified = append(unverified, *r)
		}
	}
	if unverified == nil {
		return nil
	}
	err := c.signed(ctx, unverified)
	if errors.Is(err, ErrForeign) {
		return c.refuse(ctx, &unverified[0], err)
	}
	return err
}

// refuse reports an event that was not appended by this service, and returns the error of loads.
func (c loadCheck) refuse(ctx context.Context, r *events.Record, why error) error {
	c.log.ErrorContext(ctx, "event was not appended by this service: its stream is not used",
		"workspace", r.Workspace, "stream", r.Stream, "err", why)
	return fmt.Errorf("%w: %w", fault.ErrUnavailable, why)
}

// CheckEventMAC returns nil if mac proves that a store appended the event.
func CheckEventMAC(
	by Authenticator, workspace, id, stream events.ID, version, schema int64, kind string, meta, data, mac []byte,
) error {
	return by.CheckMAC(eventPlace, authenticatedBytes(workspace, id, stream, version, schema, kind, meta, data), mac)
}

// authenticatedBytes returns the bytes of an event that its MAC covers. Seq and time are not covered,
// because the database assigns them; version gives the event's position in its stream, and
// id when it was made. Each text is preceded by its length.
func authenticatedBytes(workspace, id, stream events.ID, version, schema int64, kind string, meta, data []byte) []byte {
	b := make([]byte, 0, 3*16+2*8+3*4+len(kind)+len(meta)+len(data))
	b = append(append(append(b, workspace[:]...), id[:]...), stream[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(version)) // written as two's complement
	b = binary.BigEndian.AppendUint64(b, uint64(schema))
	for _, text := range [][]byte{[]byte(kind), meta, data} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...) // PostgreSQL stores no value of 4 GiB
	}
	return b
}
