-- Workspaces that an Owner has deleted. Until they are purged, an Owner can restore them.
create table deleted_workspaces (
    workspace_id uuid primary key,
    name         text not null,
    slug         text not null,
    deleted_at   timestamptz not null,
    deleted_by   text not null,
    purge_at     timestamptz not null,
    purging      boolean not null
);
