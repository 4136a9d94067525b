-- no transaction
-- Runs for which something is left to do, by their issues.
create index concurrently runs_untidied on runs (workspace_id, repo_id, issue_number) where not tidied;
