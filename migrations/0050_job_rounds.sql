-- In which round a run asked for each of its jobs. A replica of the build before cannot write to
-- runs any more.
alter table runs add column job_rounds integer[] not null default '{}'; -- of the jobs of detail, in their order
update runs r set job_rounds = (
    select array_agg(coalesce((
        select (s.data ->> 'attempt')::int from events s
        where s.workspace_id = j.workspace_id and s.stream = j.stream and s.version < j.version
            and s.kind = 'run.stage_entered' and s.data ->> 'stage' = 'implementing'
        order by s.version desc limit 1), 0) order by j.version)
    from (
        select workspace_id, stream, version from events
        where workspace_id = r.workspace_id and stream = r.run_id and kind = 'run.job_requested'
        order by version limit json_array_length(r.detail -> 'jobs')
    ) j)
where json_array_length(r.detail -> 'jobs') > 0;
alter table runs alter column job_rounds drop default;
