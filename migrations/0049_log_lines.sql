-- Lines of logs have numbers. Pieces from before have none, and those of a log of which a
-- service of an older version stored some: that did not count.
alter table job_logs
    add column line bigint; -- which its first byte is in; the first is 1
alter table job_leases
    add column log_lines bigint not null default 0, -- that have ended in the first
    add column lines_to  bigint not null default 0; -- bytes of the log
