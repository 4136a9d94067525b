-- What the build farm runs, a row a job. The views are inline: who looks for a job to give
-- to a runner never sees one that another has been given.
create table jobs (
    workspace_id    uuid not null,
    job_id          uuid not null,
    name            text not null,
    state           text not null,
    submitted_by    json not null,
    requirement     text not null,             -- names what is in required
    required        json not null,
    repo_id         uuid,
    repo_name       text not null,
    priority        text not null,
    fair_key        text not null,
    turn            bigint not null,
    submitted_at    timestamptz not null,
    queued_at       timestamptz not null,      -- the last time that it came into the queue
    not_before      timestamptz not null,
    epoch           integer not null,
    attempt         integer not null,
    max_attempts    integer not null,
    runner_id       uuid,                      -- that has it, or had it last
    runner_name     text not null,
    excluded        uuid[] not null,           -- runners that declined it
    concurrency_key text not null,             -- empty if it has none
    concurrency     integer not null,          -- how many of that key may run at once
    slot            integer not null,          -- of them, 0 if it holds none
    leased_at       timestamptz,
    accepted        boolean not null,
    started_at      timestamptz,
    finished_at     timestamptz,
    due_at          timestamptz,               -- when the clock has to look at it
    run_seconds     integer not null,
    expires_at      timestamptz not null,
    cancel          json,
    outcome         json,
    attempts        json not null,
    artifacts       json not null,
    primary key (workspace_id, job_id)
);
-- The queue, by what is required: who looks for a job asks once for each set that a runner meets.
create index jobs_queue on jobs (workspace_id, requirement, turn, job_id) where state = 'queued';
create index jobs_turns on jobs (workspace_id, fair_key, turn) where state = 'queued';
create index jobs_held on jobs (workspace_id, runner_id) where state in ('leased', 'running', 'cancelling');
create index jobs_slots on jobs (workspace_id, concurrency_key) where slot > 0;
create index jobs_active on jobs (workspace_id, job_id) where state in ('queued', 'leased', 'running', 'cancelling');
create index jobs_ended on jobs (workspace_id, finished_at desc, job_id desc) where state not in ('queued', 'leased', 'running', 'cancelling');
create index jobs_of_repo on jobs (workspace_id, repo_id, job_id desc);
create index jobs_of_runner on jobs (workspace_id, runner_id, job_id desc);
-- Of all workspaces.
create index jobs_due on jobs (due_at) where due_at is not null;

-- What was asked for: it never changes.
create table job_specs (
    workspace_id uuid not null,
    job_id       uuid not null,
    spec         json not null,
    primary key (workspace_id, job_id)
);

create table job_artifacts (
    workspace_id uuid not null,
    artifact_id  uuid not null,
    job_id       uuid not null,
    epoch        integer not null,
    name         text not null,
    path         text not null,
    size         bigint not null,
    sha256       text not null,
    mode         integer not null,
    stored_at    timestamptz not null,
    primary key (workspace_id, artifact_id)
);
create index job_artifacts_of_job on job_artifacts (workspace_id, job_id, path);

-- How many jobs wait, are with runners, and have ended.
create table job_counts (
    workspace_id uuid primary key,
    queued       integer not null,
    held         integer not null,
    ended        bigint not null
);
