package door

import (
	"runtime"
	"time"

	"svc/http/fair"
)

// Bounds are the semaphores of a process. Slots are counted by person and by workspace, see
// [Door.holder].
type Bounds struct {
	reads         *fair.Semaphore // GETs that hold no other slot
	bodies        *fair.Semaphore // bodies of all other methods, until they are answered; a slot for each [SlotBytes]
	writes        *fair.Semaphore // all other methods, once their body has arrived
	Streams       *fair.Semaphore // live updates and followed logs
	Exports       *fair.Semaphore // exports of the audit log, until they are read to the end
	ExportPages   *fair.Semaphore // pages of exports that are being read and encoded
	Downloads     *fair.Semaphore // artifacts and logs
	Verifications *fair.Semaphore // verifications of Merkle logs
	Histories     *fair.Semaphore // past states and replays, each with a workspace in memory
	Engine        *fair.Semaphore // requests that wait for the engine, and so for a code host
	positions     *fair.Semaphore // requests that wait for X-Svc-Min-Position
}

// SlotBytes is how many bytes of a body one slot of the bodies allows in memory. The largest body
// of any route fits into maxBodySlots.
const SlotBytes = 128 << 10

// maxBodySlots are the slots of the bodies of one caller.
const maxBodySlots = 8

// maxCooldown bounds how long a released slot is withheld from a holder that has more requests
// waiting.
const maxCooldown = time.Second

// maxWriteCooldown is shorter than maxCooldown, since a command mostly waits for its commit, which takes
// no processor. Refusals of a body, which take less time, have their full cooldown.
const maxWriteCooldown = 10 * time.Millisecond

func newBounds() *Bounds {
	activity := &fair.Activity{} // reads and writes compete for the processors
	return &Bounds{
		reads: fair.New(fair.Bound{
			Name: "reads", Slots: 64, PerParty: partyShare(), PerCaller: partyShare() - 1, Queue: 4096, Wait: 5 * time.Second, Retry: time.Second,
			IdleAfter: time.Second, Activity: activity, MaxCooldown: maxCooldown,
		}),
		bodies: fair.New(fair.Bound{
			Name: "bodies", Slots: 128, PerCaller: maxBodySlots, Queue: 4096, Wait: 20 * time.Second, Retry: time.Second,
		}),
		writes: fair.New(fair.Bound{
			Name: "writes", Slots: 64, PerParty: partyShare(), Queue: 4096, Wait: 20 * time.Second, Retry: time.Second,
			IdleAfter: time.Second, Activity: activity, MaxCooldown: maxWriteCooldown,
		}),
		Streams: fair.New(fair.Bound{
			Name: "streams", Slots: 1024, PerCaller: 12,
			Queue: 512, Wait: time.Second, Retry: 10 * time.Second,
		}),
		// Exports and downloads last as long as their clients take to read them. With few slots, a few new
		// accounts that read slowly could take them all, since the reserve is for those who hold none. There
		// can be many slots, since a slow reader costs only a connection and a page in memory.
		Exports: fair.New(fair.Bound{Name: "exports", Slots: 256, PerCaller: 2, Retry: 30 * time.Second}),
		// The queue has room for all exports at once, and for all of a workspace. An export that gets no slot
		// in time fails midway.
		ExportPages: fair.New(fair.Bound{Name: "export_pages", Slots: 8, Queue: 256, Wait: 20 * time.Second, Retry: 30 * time.Second}),
		Downloads: fair.New(fair.Bound{
			Name: "downloads", Slots: 256, PerCaller: 8,
			Queue: 64, Wait: 5 * time.Second, Retry: 5 * time.Second,
		}),
		Verifications: fair.New(fair.Bound{
			Name: "verifications", Slots: 4,
			Queue: 32, Wait: 20 * time.Second, Retry: 10 * time.Second, MaxCooldown: maxCooldown,
		}),
		Histories: fair.New(fair.Bound{
			Name: "histories", Slots: 4,
			Queue: 32, Wait: 10 * time.Second, Retry: 5 * time.Second, MaxCooldown: maxCooldown,
		}),
		Engine: fair.New(fair.Bound{
			Name: "engine", Slots: 16, Queue: 64, Wait: 5 * time.Second, Retry: 5 * time.Second,
		}),
		positions: fair.New(fair.Bound{
			Name: "positions", Slots: 512, PerCaller: 16,
			Queue: 512, Wait: time.Second, Retry: time.Second,
		}),
	}
}

// partyShare bounds the concurrent reads, and the concurrent writes, of a person or workspace while
// others are active. More would only take processors from the others. A single token gets one less,
// so that the person who issued it is not locked out by it.
func partyShare() int { return min(max(4, 2*runtime.GOMAXPROCS(0)), maxPartyShare) }

// maxPartyShare is a quarter of the slots, of which no party has more in any case.
const maxPartyShare = 16

func (b *Bounds) all() []*fair.Semaphore {
	return []*fair.Semaphore{
		b.reads, b.bodies, b.writes, b.Streams, b.Exports, b.ExportPages, b.Downloads, b.Verifications, b.Histories, b.Engine, b.positions,
	}
}
