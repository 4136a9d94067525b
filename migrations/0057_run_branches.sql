-- The branch of a run in a column of its own, so that a search need not read the detail: a column
-- of a followed view. A replica of the build before cannot write to runs any more.
alter table runs add column branch text not null default '';
update runs set branch = detail ->> 'branch' where detail ->> 'branch' <> '';
alter table runs alter column branch drop default;

-- Outcomes of one repository among many.
create index outcomes_ended_by_repo on outcomes (workspace_id, repo_id, ended_at) where ended_at is not null;
create index outcomes_intervened_by_repo on outcomes (workspace_id, repo_id, last_at) where last_at is not null;
