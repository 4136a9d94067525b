-- How many machines an enrollment is for, and how many of them have become runners.
alter table enrollments add column uses int not null default 1, add column used int not null default 0;
update enrollments set used = 1 where status = 'used';
