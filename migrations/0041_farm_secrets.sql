-- Which secrets jobs of the build farm can be given. The values are in vault_secrets, sealed.
create table farm_secrets (
    workspace_id uuid not null,
    name         text not null,
    value_id     uuid not null,
    set_by       text not null,
    set_at       timestamptz not null,
    primary key (workspace_id, name)
);
