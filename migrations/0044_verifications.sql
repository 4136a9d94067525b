-- What became of the last verification of each log that was asked for: it takes long, and
-- others want to know too. It is nobody's proof, and no view.
create table verifications (
    workspace_id uuid primary key,
    checked_at   timestamptz not null,
    report       json not null
);
