-- no transaction
-- Repositories whose issues are queued by a label.
create index concurrently repos_labelled on repos (workspace_id, repo_id) where status = 'active' and settings ->> 'label' <> '';
