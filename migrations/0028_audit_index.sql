-- The view of the audit log is an index of terms and texts by blocks of events,
-- in the place of a row with ten indexes for each event. It is folded anew. A
-- replica of the build before cannot write to it, and so writes nothing.
drop table audit;
create table audit (
    workspace_id uuid not null,
    entry        bytea not null,       -- what kind of row, and its key within that
    data         bytea not null,
    primary key (workspace_id, entry)
);
delete from checkpoints where view = 'audit';
delete from parked where view = 'audit';
delete from rebuilds where view = 'audit';
