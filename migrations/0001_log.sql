-- The log. A workspace is a log: its events are numbered 1, 2, 3 … without a
-- gap, in the order in which they were committed. workspace_id leads every key.

create table logs (
    workspace_id uuid primary key,
    head         bigint not null,      -- the number of the newest event
    last_at      timestamptz not null  -- its time; times never run backwards in a log
);

-- data and meta are json, not jsonb: the stored bytes are the bytes that were written.
create table events (
    workspace_id uuid not null,
    seq          bigint not null,
    id           uuid not null,
    stream       uuid not null,
    version      integer not null,     -- 1, 2, 3 … within the stream
    kind         text not null,
    schema       smallint not null,
    at           timestamptz not null,
    meta         json not null,        -- who, through which door, by which request
    data         json not null,
    primary key (workspace_id, seq),
    unique (workspace_id, stream, version)
);

-- What may exist once in a workspace, such as a service account's name.
create table unique_keys (
    workspace_id uuid not null,
    key          text not null,
    owner        uuid not null,        -- the stream that holds it
    primary key (workspace_id, key)
);

-- What may exist once at all: verified e-mail addresses and workspace slugs.
create table global_keys (
    key          text primary key,
    workspace_id uuid not null,
    owner        uuid not null
);

-- Commands that carried an idempotency key, and what they were answered.
create table commands (
    workspace_id uuid not null,
    actor        uuid not null,
    key          text not null,
    request_hash bytea not null,
    answer       json not null,        -- never a secret
    seq          bigint not null,
    at           timestamptz not null,
    primary key (workspace_id, actor, key)
);
