-- Who asks is looked up by person and workspace on each request: one index for that,
-- and for all workspaces of a person, so that it costs the same whoever is in many.
create index members_of_user on members (user_id, workspace_id);
drop index members_by_user;
