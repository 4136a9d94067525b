-- Members in the order in which they joined.
create index members_joined on members (workspace_id, joined_at, member_id);
