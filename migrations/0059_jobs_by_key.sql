-- The queue by concurrency key and limit: dispatch goes from key to key where many jobs wait for keys
-- without a free slot.
create index jobs_keys on jobs (workspace_id, requirement, concurrency_key, concurrency, turn, job_id) where state = 'queued';
