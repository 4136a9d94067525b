-- The bus, where no other is named: a topic is a row that counts its messages.
-- Whoever publishes holds that row until the commit, so positions become
-- visible in order and a reader that has seen n misses nothing below it.
create table bus_topics (
    topic text primary key,
    head  bigint not null,                 -- the position of the newest message
    tail  bigint not null                  -- up to this one they were removed
);

create table bus_messages (
    topic    text not null,
    position bigint not null,              -- 1, 2, 3 … within the topic
    id       text not null,                -- the event's; not unique, for it may be published again
    at       timestamptz not null default now(),
    metadata json not null,
    payload  bytea not null,
    primary key (topic, position)
);

-- How far each group of consumers has come.
create table bus_groups (
    topic    text not null,
    name     text not null,
    position bigint not null,
    primary key (topic, name)
);

-- What happened before there was a bus has no consumer.
insert into checkpoints (workspace_id, view, seq) select workspace_id, 'bus', head from logs;
