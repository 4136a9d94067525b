-- Enrollments whose token may still be used.
create index enrollments_pending on enrollments (workspace_id, expires_at, enrollment_id) where status = 'pending';
