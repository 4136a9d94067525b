-- What is kept of a workspace that was purged.
create table tombstones (
    workspace_id uuid primary key,
    note         text not null,        -- signed: the last checkpoint of its log, and when it was purged
    erased_at    timestamptz           -- when nothing else of it was left; null until then
);
create index tombstones_unfinished on tombstones (workspace_id) where erased_at is null;
