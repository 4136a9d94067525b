-- A message of an event is where the event is in its log, and is read from there:
-- it need not be kept twice. Messages come and go, so the room that they had is
-- given back before long.
alter table bus_messages
    alter column id drop not null,
    alter column metadata drop not null,
    alter column payload drop not null,
    add column workspace_id uuid,          -- with seq, in the place of those three
    add column seq bigint,
    add constraint bus_messages_whole check (num_nulls(workspace_id, seq) = 0 or num_nulls(id, metadata, payload) = 0);
alter table bus_messages set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
