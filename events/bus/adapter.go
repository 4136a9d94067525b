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
)

const (
	batch = 100                    // messages that are read together
	look  = 250 * time.Millisecond // how often a subscriber looks for some
	again = time.Second            // after an error
)

// table tells watermill-sql how to read a topic by plain position: the next
// messages are those after the last one, in the order of the primary key,
// however many wait. Nobody's open transaction holds anybody else back.
type table struct{}

// InsertQuery numbers the messages under the row of their topic.
func (table) InsertQuery(p sqlbus.InsertQueryParams) (sqlbus.Query, error) {
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

// selectMessages reads messages in their whole form. Should an event be gone from its
// log its message is empty.
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

// SelectQuery reads on from where the group is. There is no gap in the
// positions, so it can say up to where: whatever is planned, as many rows are
// read as are wanted. With "order by position limit n" alone a plan that is made
// before the table was analyzed reads and sorts all that wait. Should an event
// be gone from its log its message is empty.
func (table) SelectQuery(p sqlbus.SelectQueryParams) (sqlbus.Query, error) {
	next, err := p.OffsetsAdapter.NextOffsetQuery(sqlbus.NextOffsetQueryParams{Topic: p.Topic, ConsumerGroup: p.ConsumerGroup})
	return query(fmt.Sprintf(`
		with at as (%s), behind as (
			select greatest(tail, (select position from at)) as position from bus_topics where topic = $1
		)
		`+selectMessages+`
		where m.topic = $1 and m.position > (select position from behind) and m.position <= (select position from behind) + %d
		order by m.position`, next.Query, batch), next.Args...), err
}

func (table) UnmarshalMessage(p sqlbus.UnmarshalMessageParams) (row sqlbus.Row, err error) {
	var id string
	if err := p.Row.Scan(&row.Offset, &id, &row.Metadata, &row.Payload); err != nil {
		return row, fmt.Errorf("read message: %w", err)
	}
	row.UUID, row.Msg = []byte(id), message.NewMessage(id, row.Payload)
	if err := json.Unmarshal(row.Metadata, &row.Msg.Metadata); err != nil {
		return row, fmt.Errorf("decode metadata of message %s: %w", id, err)
	}
	return row, nil
}

func (table) SchemaInitializingQueries(sqlbus.SchemaInitializingQueriesParams) ([]sqlbus.Query, error) {
	return nil, nil // the migrations have done it
}

// SubscribeIsolationLevel: whoever has waited for the others of its group sees
// where they have come to.
func (table) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelReadCommitted }

// offsets keep how far a group has come, in a row that keeps the others of the group out
// meanwhile.
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

// pauses are those of a subscriber between two looks.
type pauses struct {
	log          *slog.Logger
	topic, group string
}

func (p *pauses) HandleError(_ watermill.LoggerAdapter, none bool, err error) time.Duration {
	switch {
	case errors.Is(err, context.Canceled): // it is being closed
		return look
	case err != nil:
		p.log.Error("read from the bus", "topic", p.topic, "group", p.group, "again_in", again, "err", err)
		return again
	case none:
		return look
	}
	return 0
}
