-- The ended job that a job tries again.
alter table jobs add column retry_of uuid;
