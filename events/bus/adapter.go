package bus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	sqlbus "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"svc/fault"
)

const (
	readBatch    = 100                    // messages read together
	pollInterval = 250 * time.Millisecond // how often a subscriber polls
	retryDelay   = time.Second            // pause after an error
)

// schemaAdapter makes watermill-sql read a topic by position: the next messages are those after the
// last one, in the order of the primary key, however many wait. No open transaction blocks
// another reader.
type schemaAdapter struct{}

// InsertQuery assigns positions to the messages while it holds the row of their topic.
func (schemaAdapter) InsertQuery(p sqlbus.InsertQueryParams) (sqlbus.Query, error) {
	var ids, metadata []string
	var payloads [][]byte
	for _, m := range p.Msgs {
		text, err := json.Marshal(m.Metadata)
		if err != nil {
			return sqlbus.Query{}, fmt.Errorf("encode metadata of message %s: %w", m.UUID, err)
		}
		ids, metadata, payloads = append(ids, m.UUID), append(metadata, string(text)), append(payloads, m.Payload)
	}
	return query(`
		with counted as (
			insert into bus_topics as t (topic, head, tail) values ($1, $2, 0)
			on conflict (topic) do update set head = t.head + excluded.head
			returning head
		)
		insert into bus_messages (topic, position, id, metadata, payload)
		select $1, head - $2 + ord, id, metadata::json, payload
		from counted cross join unnest($3::text[], $4::text[], $5::bytea[]) with ordinality as m (id, metadata, payload, ord)`,
		p.Topic, int64(len(p.Msgs)), ids, metadata, payloads), nil
}

// selectMessages reads messages with their content. If an event is no longer in its log,
// its message is empty.
const selectMessages = `
	select m.position, coalesce(m.id, e.id::text, ''),
		coalesce(m.metadata, json_build_object('` + metaWorkspace + `', m.workspace_id::text, '` + metaSeq + `', m.seq::text,
			'` + metaKind + `', coalesce(e.kind, ''), '` + metaSchema + `', coalesce(e.schema::text, ''),
			'` + metaStream + `', coalesce(e.stream::text, ''),
			'` + metaAt + `', coalesce(to_char(e.at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), ''))),
		coalesce(m.payload, convert_to(e.data::text, 'UTF8'), '')
	from bus_messages m
	left join lateral (
		select id, kind, schema, stream, at, data from events where workspace_id = m.workspace_id and seq = m.seq offset 0) e on true `

// SelectQuery reads the next messages of the group. Positions have no gap, so the query can
// bound them on both sides and reads as many rows as wanted with every plan. With "order by
// position limit n" alone, a plan that was made before the table was analyzed reads and
// sorts all waiting messages.
func (schemaAdapter) SelectQuery(p sqlbus.SelectQueryParams) (sqlbus.Query, error) {
	next, err := p.OffsetsAdapter.NextOffsetQuery(sqlbus.NextOffsetQueryParams{Topic: p.Topic, ConsumerGroup: p.ConsumerGroup})
	return query(fmt.Sprintf(`
		with at as (%s), behind as (
			select greatest(tail, (select position from at)) as position from bus_topics where topic = $1
		)
		`+selectMessages+`
		where m.topic = $1 and m.position > (select position from behind) and m.position <= (select position from behind) + %d
		order by m.position`, next.Query, readBatch), next.Args...), err
}

func (schemaAdapter) UnmarshalMessage(p sqlbus.UnmarshalMessageParams) (row sqlbus.Row, err error) {
	var id string
	if err := p.Row.Scan(&row.Offset, &id, &row.Metadata, &row.Payload); err != nil {
		return row, fmt.Errorf("read message: %w", err)
	}
	row.UUID, row.Msg = []byte(id), message.NewMessage(id, row.Payload)
	err = json.Unmarshal(row.Metadata, &row.Msg.Metadata)
	return row, fault.Wrap(err, "decode metadata of message %s", id)
}

func (schemaAdapter) SchemaInitializingQueries(sqlbus.SchemaInitializingQueriesParams) ([]sqlbus.Query, error) {
	return nil, nil // the migrations create the schema
}

// SubscribeIsolationLevel is read committed: a reader that has waited for others of its
// group sees the position that they have reached.
func (schemaAdapter) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelReadCommitted }

// offsets stores the position of a group in a row, whose lock keeps out the other members
// of the group.
type offsets struct{ group string }

func (o offsets) NextOffsetQuery(p sqlbus.NextOffsetQueryParams) (sqlbus.Query, error) {
	return query(`select position from bus_groups where topic = $1 and name = $2 for update`, p.Topic, o.group), nil
}

func (o offsets) AckMessageQuery(p sqlbus.AckMessageQueryParams) (sqlbus.Query, error) {
	return query(`update bus_groups set position = $3 where topic = $1 and name = $2`, p.Topic, o.group, p.LastRow.Offset), nil
}

func (o offsets) BeforeSubscribingQueries(p sqlbus.BeforeSubscribingQueriesParams) ([]sqlbus.Query, error) {
	return []sqlbus.Query{query(`
		insert into bus_groups (topic, name, position) values ($1, $2, 0) on conflict do nothing`, p.Topic, o.group)}, nil
}

func (offsets) ConsumedMessageQuery(sqlbus.ConsumedMessageQueryParams) (sqlbus.Query, error) {
	return sqlbus.Query{}, nil
}

func (offsets) SchemaInitializingQueries(sqlbus.OffsetsSchemaInitializingQueriesParams) ([]sqlbus.Query, error) {
	return nil, nil
}

func query(text string, args ...any) sqlbus.Query { return sqlbus.Query{Query: text, Args: args} }

// pollBackoff returns how long a subscriber waits before it polls again.
type pollBackoff struct {
	log          *slog.Logger
	topic, group string
}

func (p *pollBackoff) HandleError(_ watermill.LoggerAdapter, none bool, err error) time.Duration {
	switch {
	case errors.Is(err, context.Canceled): // the subscriber is being closed
		return pollInterval
	case err != nil:
		p.log.Error("read from the bus", "topic", p.topic, "group", p.group, "again_in", retryDelay, "err", err)
		return retryDelay
	case none:
		return pollInterval
	}
	return 0
}
