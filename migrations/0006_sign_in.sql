-- Sign-ins that are under way at a provider. Each can be taken up once.
create table oauth_states (
    state_hash         bytea primary key,
    provider           text not null,
    verifier           text not null,
    callback_url       text not null,
    error_callback_url text not null,
    new_user_url       text not null,
    expires_at         timestamptz not null
);
create index oauth_states_expiry on oauth_states (expires_at);

-- The accounts at providers by which people sign in: a view.
create table accounts (
    account_key  text primary key,     -- provider/id at the provider
    workspace_id uuid not null,        -- the person's own
    user_id      uuid not null,
    provider     text not null,
    account_id   text not null,
    login        text not null,
    linked_at    timestamptz not null
);
create index accounts_user on accounts (user_id);
