-- Who does what one process is enough for, such as following a view.
create table leases (
    name   text primary key,
    holder uuid not null,              -- of the process, made when it started
    until  timestamptz not null        -- when another may take over
);
