-- Build machines, what makes machines runners, and who signs their certificates.

create table runners (
    workspace_id     uuid not null,
    runner_id        uuid not null,
    name             text not null,
    state            text not null,    -- enrolled, online, offline, draining, suspended, revoked, retired
    draining         boolean not null, -- takes no more jobs, connected or not
    note             text not null,    -- of who drained or revoked it
    noted_by         text not null,
    offline_reason   text not null,
    labels           text[] not null,
    exclusive_labels text[] not null,
    capacity         int not null,
    jobs_left        int,              -- null: any number
    agent_version    text not null,
    os               text not null,
    arch             text not null,
    sandboxes        text[] not null,
    serial           text not null,    -- of its certificate
    not_after        timestamptz not null,
    next_serial      text not null,    -- of the one that it got and has not used yet, or empty
    next_not_after   timestamptz,
    enrollment_id    uuid not null,
    enrolled_at      timestamptz not null,
    changed_at       timestamptz not null, -- when its state changed last
    primary key (workspace_id, runner_id)
);
create index runners_by_name on runners (workspace_id, (state in ('suspended', 'revoked', 'retired')), name, runner_id);
create index runners_connected on runners (workspace_id) where state in ('online', 'draining');

-- Tokens by which machines become runners: which enrolment has one, the keys say.
create table enrollments (
    workspace_id     uuid not null,
    enrollment_id    uuid not null,
    name             text not null,
    status           text not null,    -- pending, used, withdrawn; that its time is up the clock says
    labels           text[] not null,
    exclusive_labels text[] not null,
    capacity_limit   int not null,
    jobs             int not null,
    tail             text not null,
    runner_id        uuid,             -- that the machine became
    refusals         int not null,
    minted_by        text not null,
    minted_at        timestamptz not null,
    expires_at       timestamptz not null,
    used_at          timestamptz,
    primary key (workspace_id, enrollment_id)
);

-- What signs the certificates of runners. Their keys are in vault_secrets, sealed.
create table authorities (
    workspace_id uuid not null,
    authority_id uuid not null,
    certificate  text not null,        -- PEM
    not_after    timestamptz not null,
    retired      boolean not null,
    primary key (workspace_id, authority_id)
);
