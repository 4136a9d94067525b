-- The rows of one workspace in tables whose key is unique over all: to compare
-- them with its log, and to make them anew.
create index users_workspace on users (workspace_id);
create index accounts_workspace on accounts (workspace_id);
create index service_tokens_workspace on service_tokens (workspace_id);
create index global_keys_workspace on global_keys (workspace_id);
