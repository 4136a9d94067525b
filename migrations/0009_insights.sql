-- What insights are computed from: a row for each run, kept by a followed view.
create table outcomes (
    workspace_id   uuid not null,
    run_id         uuid not null,
    repo_id        uuid not null,
    queued_at      timestamptz not null,
    status         text not null,          -- how it ended; empty while it moves
    ended_at       timestamptz,
    counted        boolean not null,       -- false if it was cancelled before there was any work, or as a duplicate
    implemented    boolean not null,       -- it has reached Implementing
    touched        boolean not null,       -- a person has pushed to its branch
    interventions  integer not null,
    intervened_at  timestamptz[] not null,
    last_at        timestamptz,            -- the newest of those
    pushed_by      uuid not null,          -- who pushed last, and when
    pushed_at      timestamptz,
    cost_cents     bigint not null,
    phase          text not null,          -- working, person, farm
    phase_since    timestamptz not null,
    person_ms      bigint not null,        -- waited for a person
    farm_ms        bigint not null,        -- waited for the build farm
    primary key (workspace_id, run_id)
);
create index outcomes_ended on outcomes (workspace_id, ended_at) where ended_at is not null;
create index outcomes_intervened on outcomes (workspace_id, last_at) where last_at is not null;
create index runs_updated on runs (workspace_id, updated_at desc, run_id desc);
