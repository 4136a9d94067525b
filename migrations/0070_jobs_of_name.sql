-- no transaction
-- Earlier jobs of the same name, the newest first.
create index concurrently jobs_of_name on jobs (workspace_id, name, job_id desc) where state not in ('queued', 'leased', 'running', 'cancelling');
