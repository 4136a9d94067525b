-- Repositories that runs of a workspace work on. Credentials are in vault_secrets, sealed.
create table repos (
    workspace_id        uuid not null,
    repo_id             uuid not null,
    name                text not null, -- at its host, such as acme/web
    kind                text not null,
    api_url             text not null,
    web_url             text not null,
    clone_url           text not null,
    host_id             text not null,
    has_credential      boolean not null,
    has_read_credential boolean not null,
    settings            json not null,
    status              text not null, -- active, paused, disconnected
    pause_code          text not null, -- '' unless the service paused it
    pause_reason        text not null,
    paused_by           text not null,
    paused_at           timestamptz,
    ok                  boolean, -- null: never checked
    checks              json not null,
    checked_at          timestamptz,
    connected_by        text not null,
    connected_at        timestamptz not null,
    primary key (workspace_id, repo_id)
);
