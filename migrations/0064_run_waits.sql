-- What runs wait for besides people, how many of their jobs are not over, and whether nothing is left to do
-- for them. No run said that it waited before. A replica of the build before cannot write to runs any more.
alter table runs
    add column wait_code   text not null default '',
    add column wait_detail text not null default '',
    add column wait_since  timestamptz,
    add column open_jobs   integer not null default 0,
    add column tidied      boolean not null default false;
update runs set tidied = true where not active;
update runs set open_jobs = (select count(*) from json_array_elements(detail -> 'jobs') j where j ->> 'status' = 'requested')
where json_array_length(detail -> 'jobs') > 0;
alter table runs
    alter column wait_code drop default,
    alter column wait_detail drop default,
    alter column open_jobs drop default,
    alter column tidied drop default;
