-- The commit that the ref of a job was when it was first checked out; '' for a job that was submitted with a commit.
alter table jobs add column checked_out text not null default '';
