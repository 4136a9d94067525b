-- Settings and findings of repositories are json, not jsonb, so that a row can be compared with what the log says. The
-- view is folded anew.
delete from repos;
delete from checkpoints where view = 'repos';
delete from parked where view = 'repos';
alter table repos
    alter column settings type json using settings::json,
    alter column checks type json using checks::json;
