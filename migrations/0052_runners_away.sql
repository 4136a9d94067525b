-- Machines that are not connected and may be again: they are counted, and listed by name.
create index runners_away on runners (workspace_id, name, runner_id) where state in ('enrolled', 'offline');
