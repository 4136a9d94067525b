-- Views: tables that can be dropped and folded again from the log.

create table checkpoints (
    workspace_id uuid not null,
    view         text not null,
    seq          bigint not null,
    primary key (workspace_id, view)
);

create table users (
    user_id       uuid primary key,
    workspace_id  uuid not null,       -- the personal workspace
    name          text not null,
    email         text not null,       -- the primary address
    emails        text[] not null,     -- every verified one
    avatar_url    text not null,
    registered_at timestamptz not null
);

create table workspaces (
    workspace_id uuid primary key,
    name         text not null,
    slug         text not null,
    created_at   timestamptz not null
);

create table members (
    workspace_id  uuid not null,
    member_id     uuid not null,
    user_id       uuid not null,
    email         text not null,
    role          text not null,
    approve_loops boolean,             -- null: the role decides
    joined_at     timestamptz not null,
    primary key (workspace_id, member_id)
);
create index members_user on members (workspace_id, user_id);
create index members_by_user on members (user_id);

create table service_accounts (
    workspace_id uuid not null,
    account_id   uuid not null,
    name         text not null,
    scopes       text[] not null,
    tail         text not null,
    status       text not null,        -- active, revoked
    created_by   text not null,
    created_at   timestamptz not null,
    rotated_at   timestamptz,
    revoked_at   timestamptz,
    primary key (workspace_id, account_id)
);

-- Every token there ever was, by fingerprint; only the current one of an account opens doors.
create table service_tokens (
    fingerprint  bytea primary key,
    workspace_id uuid not null,
    account_id   uuid not null,
    name         text not null,
    scopes       text[] not null,
    tail         text not null,
    status       text not null         -- current, rotated, revoked
);

create table runs (
    workspace_id uuid not null,
    run_id       uuid not null,
    repo_id      uuid not null,
    repo_name    text not null,
    issue_number integer not null,
    issue_title  text not null,
    stage        smallint not null,    -- 0 Queued … 6 Merge
    status       text not null,
    active       boolean not null,
    pr_number    integer,
    cost_cents   bigint not null,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    finished_at  timestamptz,
    detail       json not null,
    primary key (workspace_id, run_id)
);
create index runs_active on runs (workspace_id, stage, created_at, run_id) where active;
create index runs_terminal on runs (workspace_id, finished_at desc, run_id desc) where not active;

-- What the audit log is searched by; the record itself is the event.
create table audit (
    workspace_id uuid not null,
    seq          bigint not null,
    at           timestamptz not null,
    action       text not null,
    actor_type   text not null,
    actor_id     uuid not null,
    actor_name   text not null,
    target_type  text not null,
    target_id    uuid not null,
    target_name  text not null,
    primary key (workspace_id, seq)
);
create index audit_action on audit (workspace_id, action text_pattern_ops, seq desc);
create index audit_actor on audit (workspace_id, actor_name, seq desc);
create index audit_target on audit (workspace_id, target_id, seq desc);
create index audit_at on audit (workspace_id, at);
