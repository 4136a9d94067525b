-- Members in the order of their names, how many there are of each role, and the
-- texts by which one is searched for. What the log does not say of members who
-- joined before, their names, is empty: they are ordered by address until they
-- sign in again. A replica of the build before cannot write to members any more.
alter table members
    add column name text not null default '',
    add column name_key text collate "C" not null default ''; -- name, or else the address, folded
update members set name_key = lower(email collate "C");
alter table members
    alter column name drop default,
    alter column name_key drop default;
create index members_name on members (workspace_id, name_key, member_id);
create index members_role on members (workspace_id, role, name_key, member_id);
drop index members_user;
create index members_user on members (workspace_id, user_id, member_id);
drop index members_joined;
create index members_joined on members (workspace_id, joined_at, member_id) include (role);

create table member_counts (
    workspace_id uuid not null,
    role         text not null,
    members      integer not null,     -- at least one
    primary key (workspace_id, role)
);
insert into member_counts (workspace_id, role, members)
select workspace_id, role, count(*) from members group by 1, 2;

create table member_words (
    workspace_id uuid not null,
    word_id      text not null,        -- the member's id and a number
    member_id    uuid not null,
    name_key     text collate "C" not null,
    word         text collate "C" not null, -- where the name or the address begins, or a word in it, up to its end
    primary key (workspace_id, word_id)
);
insert into member_words (workspace_id, word_id, member_id, name_key, word)
select workspace_id, member_id || '/0', member_id, name_key, name_key from members where name_key <> ''
union all
select workspace_id, member_id || '/1', member_id, name_key, domain
from (select *, substr(name_key, position('@' in name_key) + 1) as domain from members where name_key like '%@_%') m;
create index member_words_word on member_words (workspace_id, word, name_key, member_id);
