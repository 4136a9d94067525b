-- The hashes of each 256 events of a Merkle log, one after the other, as tiles of
-- C2SP's tlog-tiles have them. What lies between them and the root of a tile
-- follows from them and is not kept; proof_hashes has what is above, and the
-- hashes of events whose tile is not full yet.
create table proof_tiles (
    workspace_id uuid not null,
    number       bigint not null,      -- from 0: that of the events 1 to 256
    hashes       bytea not null,       -- 256 of 32 bytes
    primary key (workspace_id, number)
);
alter table proof_tiles alter column hashes set storage external; -- hashes cannot be compressed

-- The hash of the event n + 1 is at 2n − (the ones of n in binary), and behind it
-- the hashes that it completes.
insert into proof_tiles (workspace_id, number, hashes)
select h.workspace_id, n / 256, string_agg(h.hash, ''::bytea order by n)
from checkpoints c
cross join lateral generate_series(0, c.seq / 256 * 256 - 1) n
join proof_hashes h on h.workspace_id = c.workspace_id and h.index = 2 * n - bit_count(n::bit(64))
where c.view = 'proof'
group by 1, 2;

delete from proof_hashes h using proof_tiles t
where h.workspace_id = t.workspace_id
and h.index >= 2 * (t.number * 256) - bit_count((t.number * 256)::bit(64))
and h.index < 2 * (t.number * 256 + 255) - bit_count((t.number * 256 + 255)::bit(64)) + 8;
