-- Events that a view could not take in, and went on without.
create table parked (
    workspace_id uuid not null,
    view         text not null,
    seq          bigint not null,
    kind         text not null,
    error        text not null,
    at           timestamptz not null, -- when it was tried
    primary key (workspace_id, view, seq)
);

-- What form the rows of a view have. One that is not here has the first form.
create table views (
    name       text primary key,
    form       integer not null,
    rebuilt_at timestamptz not null
);

-- How far the rebuild of a view has come that was cut off.
create table rebuilds (
    workspace_id uuid not null,
    view         text not null,
    seq          bigint not null,      -- events of that log that its next table has
    form         integer not null,
    primary key (workspace_id, view)
);
