-- The files that jobs of runs receive, as old as artifacts may become. The log says which digest each has.
create table job_inputs (
    workspace_id uuid not null,
    job_id       uuid not null,
    sha256       bytea not null,
    data         bytea not null,
    created_at   timestamptz not null,
    primary key (workspace_id, job_id)
);
-- The sweep that removes inputs for their age begins with the oldest of all workspaces.
create index job_inputs_created on job_inputs (created_at);
