-- The sweep that removes artifacts for their age begins with the oldest files of all workspaces.
create index job_artifacts_stored on job_artifacts (stored_at);
