-- What runs wait for, and how often they began to implement: two columns of a followed
-- view. A replica of the build before cannot write to runs any more.
alter table runs
    add column waits_for text not null default '',   -- the kind of the decision that somebody is asked for
    add column round     integer not null default 0; -- how often it entered Implementing
update runs r set waits_for = d.kind
from decisions d where d.workspace_id = r.workspace_id and d.run_id = r.run_id and d.status = 'open' and r.active;
update runs set round = (detail -> 'stages' -> 3 ->> 'attempt')::int where (detail -> 'stages' -> 3 ->> 'attempt')::int > 0;
alter table runs
    alter column waits_for drop default,
    alter column round drop default;
drop index runs_active;
create index runs_active on runs (workspace_id, stage, created_at, run_id) include (repo_id, status, waits_for, updated_at) where active;
