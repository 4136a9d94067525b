-- What a run may use up; 0 is without a limit. No run had a budget before. A replica of the build
-- before cannot write to runs any more.
alter table runs
    add column budget_cents bigint not null default 0,
    add column budget_compute_ms bigint not null default 0,
    add column budget_rounds integer not null default 0;
alter table runs
    alter column budget_cents drop default,
    alter column budget_compute_ms drop default,
    alter column budget_rounds drop default;
