-- Sealed credentials: what is in these rows opens only under SVC_VAULT_MASTER_KEY.

-- The key check: a known text, sealed, that tells a changed key at start-up.
create table vault_checks (
    name       text primary key,       -- what is checked: master_key
    sealed     bytea not null,
    key_id     text not null,
    updated_at timestamptz not null
);

-- The code host tokens of people.
create table provider_tokens (
    user_id    uuid not null,
    provider   text not null,          -- such as github
    sealed     bytea not null,
    key_id     text not null,          -- of the key it is sealed under; shows nothing of that key
    updated_at timestamptz not null,   -- when the token was put there; to seal it anew does not count
    primary key (user_id, provider)
);
