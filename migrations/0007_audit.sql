-- The view of the audit log is folded anew: rows now have the event's id, the
-- name that the target is shown by, and a text to search in. A replica of the
-- build before cannot write such rows, and so writes none.
truncate audit;
delete from checkpoints where view = 'audit';
alter table audit
    add column id     uuid not null,
    add column search text not null;   -- action, actor and target, case folded
create index audit_id on audit (workspace_id, id);
create index audit_actor_id on audit (workspace_id, actor_id, seq desc);
create index audit_actor_type on audit (workspace_id, actor_type, seq desc);
create index audit_target_name on audit (workspace_id, target_name, seq desc);
create index audit_target_type on audit (workspace_id, target_type, seq desc);
drop index audit_at;
create index audit_at on audit (workspace_id, at, seq);

-- The Merkle log of each workspace. How far it has come is in checkpoints, as
-- that of the view proof.
create table proof_hashes (
    workspace_id uuid not null,
    index        bigint not null,      -- as golang.org/x/mod/sumdb/tlog numbers stored hashes
    hash         bytea not null,
    primary key (workspace_id, index)
);
create table proof_checkpoints (
    workspace_id uuid not null,
    size         bigint not null,      -- events that it speaks for
    note         text not null,        -- signed
    made_at      timestamptz not null,
    primary key (workspace_id, size)
);

-- Secrets that the service made for itself, sealed, each with its public side.
create table vault_secrets (
    name       text primary key,       -- such as proof_signer
    sealed     bytea not null,
    key_id     text not null,          -- of the key it is sealed under
    public     text not null,
    updated_at timestamptz not null
);
