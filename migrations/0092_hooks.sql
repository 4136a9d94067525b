-- The hook by which the code host tells of changes, and the last deliveries to it of each repository. Those are no view: they
-- can be emptied at any time. A replica of the build before cannot write to repos any more.
alter table repos add column hook_id uuid;
create table hook_deliveries (
    workspace_id uuid not null,
    repo_id      uuid not null,
    delivery     text not null, -- the host's id of it; 'refused' for the last one with a wrong signature
    at           timestamptz not null,
    event        text not null, -- as the host names it
    accepted     boolean not null,
    primary key (workspace_id, repo_id, delivery)
);
