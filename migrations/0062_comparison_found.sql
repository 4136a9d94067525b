-- The workspaces in which the comparison has found problems, up to a limit. The authentication code covers them.
alter table comparison_progress add column found uuid[] not null default '{}';
