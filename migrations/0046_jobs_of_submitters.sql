-- What each person and service account has in the queue: nobody fills it alone.
create index jobs_submitters on jobs (workspace_id, (submitted_by ->> 'id'), requirement) where state = 'queued';
