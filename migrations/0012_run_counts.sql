-- How many runs each repository has: a followed view.
create table run_counts (
    workspace_id uuid not null,
    repo_id      uuid not null,
    active       integer not null,
    terminal     integer not null,
    primary key (workspace_id, repo_id)
);
