-- no transaction
-- The next due run of a workspace.
create index concurrently run_steps_next on run_steps (workspace_id, due_at) where claimed_until is null;
