-- An authentication code over each stored report, under a key that the database does not have.
-- Earlier reports have none. A replica of the build before cannot store reports any more.
delete from verifications;
alter table verifications add column mac bytea not null;

-- How far the comparison of all logs, views and keys has come: one row, written every few seconds
-- by the process that compares.
create table comparison_progress (
    one      boolean primary key default true check (one),
    count    bigint not null,          -- of writes
    last     uuid not null,            -- the last workspace that was compared in this round
    process  uuid not null,            -- that wrote the row
    mac      bytea not null            -- authentication code over the others
);
