-- Whether a runner has said itself that it takes no new jobs, as it does when its machine is drained or stopped.
alter table runner_presence add column draining boolean not null default false;
