-- How many build machines and enrolments a workspace has: a list says it at each request, and
-- counting them takes the longer the more machines came and went. A process of the build before
-- does not count those that it still enrols; comparing the views with the log names that.
create table runner_counts (
    workspace_id uuid primary key,
    runners      integer not null
);
insert into runner_counts (workspace_id, runners) select workspace_id, count(*) from runners group by 1;

create table enrollment_counts (
    workspace_id uuid primary key,
    enrollments  integer not null
);
insert into enrollment_counts (workspace_id, enrollments) select workspace_id, count(*) from enrollments group by 1;
