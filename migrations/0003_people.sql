-- What is kept about people and callers beside the log: it is not history.

create table sessions (
    token_hash          bytea primary key,  -- SHA-256; the token itself is only in the cookie
    session_id          uuid not null,
    user_id             uuid not null,
    active_workspace_id uuid,
    created_at          timestamptz not null,
    updated_at          timestamptz not null,
    expires_at          timestamptz not null,
    ip                  text not null,
    user_agent          text not null
);
create index sessions_user on sessions (user_id);

-- Demonstration people only; production people sign in through their code host.
create table passwords (
    user_id uuid primary key,
    hash    text not null
);

create table member_activity (
    workspace_id   uuid not null,
    user_id        uuid not null,
    last_active_at timestamptz not null,
    primary key (workspace_id, user_id)
);

create table service_account_usage (
    workspace_id uuid not null,
    account_id   uuid not null,
    last_used_at timestamptz not null,
    primary key (workspace_id, account_id)
);
