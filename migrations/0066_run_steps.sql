-- When each active run is looked at next, and who looks at it. It is no view: it can be emptied at
-- any time, and the runs that are active are swept into it again.
create table run_steps (
    workspace_id  uuid        not null,
    run_id        uuid        not null,
    repo_id       uuid        not null,
    due_at        timestamptz not null,
    look          boolean     not null default false, -- something has changed at the code host
    attempt       int         not null default 0,     -- failures in a row
    code          text        not null default '',    -- what the run waits for
    claimed_by    uuid,
    claimed_until timestamptz,
    primary key (workspace_id, run_id)
);

create index run_steps_due on run_steps (due_at);
create index run_steps_claimed on run_steps (claimed_until) where claimed_until is not null;
-- The next due run of a workspace, the runs of a repository, and those that wait for the same, the oldest first.
create index run_steps_next on run_steps (workspace_id, due_at) where claimed_until is null;
create index run_steps_repo on run_steps (workspace_id, repo_id, code);
create index run_steps_waiting on run_steps (workspace_id, code, run_id);
