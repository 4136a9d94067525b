-- What shows that an event was appended by the service: an HMAC under a key that
-- the database does not have. Events of builds before have none.
alter table events add column mac bytea not null default '';
