-- What the clock of the build farm looks for each second is few among all that runners have.
create index jobs_cancelling on jobs (workspace_id, job_id) where state = 'cancelling';
-- Leases that are over, until their logs are sealed.
create index job_leases_fenced on job_leases (workspace_id, job_id) where fenced and sealed_at is null;

-- What a runner gave back: it rests, the longer the more often.
alter table runner_presence
    add column declined       integer not null default 0, -- jobs in a row
    add column decline_reason text not null default '',   -- of the last of them
    add column rests_until    timestamptz;
