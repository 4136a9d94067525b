-- The labels that a person gave to a runner, and names that tell them from those of its machine. What a machine says
-- of itself begins with machine: from now on, so that it satisfies nothing that a job requires of a pool.
alter table runners add column minted_labels text[] not null default '{}';
update runners r set minted_labels = n.labels from enrollments n
where n.workspace_id = r.workspace_id and n.enrollment_id = r.enrollment_id;
update runners r set labels = array(
    select distinct l collate "C" from (
        select case when g = any(r.minted_labels) or g ~ '^(os|arch|runner|sandbox)=' then g else 'machine:' || g end as l
        from unnest(r.labels) g) t
    order by 1)
where exists (select from unnest(r.labels) g where g <> all(r.minted_labels) and g !~ '^(os|arch|runner|sandbox)=');
