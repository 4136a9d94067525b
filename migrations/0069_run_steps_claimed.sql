-- no transaction
-- Claims, to find those that have expired.
create index concurrently run_steps_claimed on run_steps (claimed_until) where claimed_until is not null;
