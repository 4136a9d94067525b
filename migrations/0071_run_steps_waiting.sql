-- no transaction
-- The runs that wait for the same, the oldest first.
create index concurrently run_steps_waiting on run_steps (workspace_id, code, run_id);
