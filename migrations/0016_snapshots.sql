-- The state of streams that grew long, at some version. It is made from the log
-- and may be deleted at any time.
create table snapshots (
    workspace_id uuid not null,
    stream       uuid not null,
    form         int not null,             -- of state; a process takes its own form alone
    version      int not null,             -- of the stream
    seq          bigint not null,          -- of the newest event in it
    state        json not null,
    primary key (workspace_id, stream)
);
