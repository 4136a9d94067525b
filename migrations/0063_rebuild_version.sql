-- The version of the program whose fold made the table. Another version begins anew.
alter table rebuilds add column version text not null default '';
