-- An authentication code over the token, the person and the start of each session, under a key that
-- the database does not have. Earlier sessions have none and end here: people sign in again. A
-- replica of the build before cannot start sessions any more.
delete from sessions;
alter table sessions add column mac bytea not null;
