-- How often a person did today what is bounded a day, for all processes together.
create table daily_counts (
    user_id uuid not null,
    what    text not null,             -- workspaces, invitations
    day     date not null,             -- the newest, in UTC
    count   integer not null,
    primary key (user_id, what)
);

-- A sign-in that was taken up is remembered, so that whoever comes with it again
-- is sent to where its errors go.
alter table oauth_states add column taken_at timestamptz;
