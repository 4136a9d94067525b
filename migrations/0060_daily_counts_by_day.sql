-- Counts of days that are over are deleted, oldest first.
create index daily_counts_day on daily_counts (day);
