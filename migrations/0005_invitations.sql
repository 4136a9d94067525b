create table invitations (
    workspace_id  uuid not null,
    invitation_id uuid not null,
    email         text not null,
    role          text not null,
    status        text not null,       -- pending, accepted, rejected, revoked
    inviter_id    uuid not null,
    inviter_name  text not null,
    sent_at       timestamptz not null,
    expires_at    timestamptz not null,
    primary key (workspace_id, invitation_id)
);
create index invitations_pending on invitations (workspace_id, sent_at desc, invitation_id desc) where status = 'pending';
create index invitations_email on invitations (email) where status = 'pending';
