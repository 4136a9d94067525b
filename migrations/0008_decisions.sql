-- What waits for a person, and what was decided: a followed view.
create table decisions (
    workspace_id uuid not null,
    decision_id  uuid not null,
    run_id       uuid not null,
    kind         text not null,        -- fact_review, merge_approval, protected_path_allow_once
    question     text not null,
    head         text not null,        -- the commit that it is about; empty for a fact review
    status       text not null,        -- open, answered, voided
    raised_at    timestamptz not null,
    closed_at    timestamptz,
    action       text not null,        -- what was answered; empty until then
    primary key (workspace_id, decision_id)
);
create index decisions_open on decisions (workspace_id, raised_at desc, decision_id desc) where status = 'open';
create index runs_repo on runs (workspace_id, repo_id, issue_number desc);
