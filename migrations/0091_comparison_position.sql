-- The progress of the comparison is a position that any process may write; the count tells processes that it moves.
-- A replica of the build before compares nothing any more.
alter table comparison_progress drop column process, drop column mac;
