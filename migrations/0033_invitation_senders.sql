-- Whoever sends an invitation again is its sender from then on.
update invitations i
set inviter_id = r.sender::uuid, inviter_name = coalesce(r.name, '')
from (
    select distinct on (e.workspace_id, e.data->>'invitationId')
        e.workspace_id, e.data->>'invitationId' as invitation, e.meta->'actor'->>'id' as sender, e.meta->'actor'->>'name' as name
    from (select distinct workspace_id from invitations) w
    join events e on e.workspace_id = w.workspace_id and e.stream = w.workspace_id
    where e.kind = 'invitation.resent'
    order by e.workspace_id, e.data->>'invitationId', e.version desc
) r
where i.workspace_id = r.workspace_id and i.invitation_id::text = r.invitation
and r.sender ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
