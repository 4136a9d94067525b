-- Commands are forgotten by age, the oldest of a workspace first.
create index commands_at on commands (workspace_id, at);
