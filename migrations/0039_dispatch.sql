-- What runners are doing at the moment, and the logs of jobs. None of it is made of
-- events: a runner that connects says the first again, and a log is only here.

-- The newest connection of each runner, and its last heartbeat.
create table runner_presence (
    workspace_id  uuid not null,
    runner_id     uuid not null,
    connection_id uuid not null,        -- another than this one is closed
    online        boolean not null,     -- until the log says that it is not
    connected_at  timestamptz not null,
    seen_at       timestamptz not null,
    free          integer not null,     -- jobs that it could take, by its own word
    load          double precision not null,
    disk_free     bigint not null,
    memory        bigint not null,
    usage         jsonb not null,       -- of each job that it runs
    primary key (workspace_id, runner_id)
) with (fillfactor = 60); -- a heartbeat writes its row again, into the same page
create index runner_presence_online on runner_presence (workspace_id, runner_id) where online;

-- The lease of each job that a runner has, or had last. A row begins, and is fenced, in the
-- transaction that says so in the log.
create table job_leases (
    workspace_id uuid not null,
    job_id       uuid not null,
    epoch        integer not null,
    runner_id    uuid not null,
    renewed_at   timestamptz not null,
    fenced       boolean not null default false, -- it is not renewed, and nothing more is taken in
    finished     boolean not null default false, -- the runner said the last thing that it has to say
    last_seq     bigint not null default 0,      -- all that the runner said up to this number is stored
    log_bytes    bigint not null default 0,
    log_chunks   bigint not null default 0,
    truncated    boolean not null default false, -- the log reached its limit
    log_sum      jsonb,                          -- what the runner says that it has sent
    sealed_at    timestamptz,                    -- the log is kept for some time from then on
    primary key (workspace_id, job_id)
) with (fillfactor = 60);
create index job_leases_live on job_leases (workspace_id, job_id) where not fenced;
create index job_leases_sealed on job_leases (sealed_at) where sealed_at is not null;

-- Pieces of logs, each epoch of a job with a log of its own.
create table job_logs (
    workspace_id uuid not null,
    job_id       uuid not null,
    epoch        integer not null,
    from_byte    bigint not null,
    at           timestamptz not null, -- by the clock of the runner
    data         bytea not null,
    primary key (workspace_id, job_id, epoch, from_byte)
);

-- Runners that have taken all jobs which they were enrolled for.
create index runners_spent on runners (workspace_id, runner_id)
    where jobs_left = 0 and state not in ('suspended', 'revoked', 'retired');
