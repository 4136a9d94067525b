package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"svc/events"
	"svc/fault"
)

// A Consumer acts upon events. The processes that run one of the same name
// share the messages: each goes to one of them, and what came while none of
// them was there waits. A consumer that is Live has every message in every
// process, from the moment on that it is there.
//
// An error of Take means try again; after a few times the message is parked
// and the next one comes, unless the error is that something is away ([fault.Away]):
// then it is tried until that is back. A try ends with the message's context, after a few
// seconds, and Take has to heed that: on NATS another process gets what is held for
// longer than all tries may take. Messages come one after the other, so it hands on
// what takes long.
type Consumer struct {
	Name  string
	Live  bool
	Knows Knows // of one that is live; nil: nothing is known
	Take  func(m *message.Message) error
}

// Knows reports whether a live consumer knows of an event, in a workspace's log, without
// being told: most are this process's own. Its message may then be left out.
type Knows func(workspace events.ID, seq int64) bool

func (c Consumer) group() string {
	if c.Live {
		return ""
	}
	return c.Name
}

// retries say how often, and how fast, what went wrong is tried again.
type retries struct {
	most        int
	first, last time.Duration // pauses, each factor times the one before
	each        time.Duration // for a try
	slack       time.Duration // to park the message, or to say what became of it
}

const factor = 3

var patient = retries{4, 100 * time.Millisecond, 3 * time.Second, 3 * time.Second, 10 * time.Second} // tests have less time

// longest is how long a message may be under way in a process.
func (r retries) longest() time.Duration {
	sum, pause := r.each+r.slack, r.first
	for range r.most {
		sum += pause + r.each
		pause = min(factor*pause, r.last)
	}
	return sum
}

const (
	closeLimit = 5 * time.Second // for a message that is being taken in when the service stops
	rest       = time.Second     // before a bus that failed is tried again, doubled each time, up to
	restMost   = 30 * time.Second
)

// Run opens the bus and has the relay and the consumers work on it until ctx
// ends. What fails it says and begins anew: the bus may be away, for a while
// or when the service starts, and nothing but the bus's work stands still.
func Run(ctx context.Context, cfg Config, relay *Relay, consumers ...Consumer) {
	cfg.persist(ctx, "open the bus", func() error {
		b, err := Open(ctx, cfg)
		if err != nil {
			return err
		}
		var group sync.WaitGroup
		group.Go(func() { relay.run(ctx, b) })
		for _, c := range consumers {
			group.Go(func() {
				cfg.persist(ctx, "consume "+c.Name, func() error { return b.consume(ctx, c) })
			})
		}
		group.Wait()
		if err := b.Close(); err != nil {
			cfg.Log.Warn("close the bus", "err", err)
		}
		return nil
	})
}

// persist does something until it is done or ctx ends.
func (cfg Config) persist(ctx context.Context, what string, do func() error) {
	for pause := rest; ; pause = min(2*pause, restMost) {
		begun := time.Now()
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(begun) > 2*restMost { // it went well for long
			pause = rest
		}
		cfg.Log.Error("the bus stands still", "at", what, "again_in", pause, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// consume takes in messages until ctx ends, or their source does.
func (b *Bus) consume(ctx context.Context, c Consumer) error {
	// Messages live on when ctx ends: the one that is being taken in is finished.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	opening, opened := context.WithTimeout(inner, openLimit)
	subscriber, err := b.subscribe(opening, Topic, c.group(), c.Knows)
	opened()
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	messages, err := subscriber.Subscribe(inner, Topic)
	if err != nil {
		return errors.Join(fmt.Errorf("subscribe: %w", err), subscriber.Close())
	}
	router, err := b.router()
	if err != nil {
		return errors.Join(err, subscriber.Close())
	}
	router.AddConsumerHandler(c.Name, Topic, subscribed{messages, subscriber}, c.Take)
	var stopping sync.WaitGroup
	ended := make(chan struct{})
	stopping.Go(func() {
		select {
		case <-ctx.Done():
			<-router.Running()
			_ = router.Close() // if it takes longer than it may, what it is at comes again
			cancel()
		case <-ended:
		}
	})
	err = router.Run(inner)
	close(ended)
	stopping.Wait()
	if err == nil && ctx.Err() == nil {
		err = errors.New("the messages have ended")
	}
	return err
}

// subscribed is a subscriber that has subscribed already: a router that cannot
// would wait for it for ever.
type subscribed struct {
	messages <-chan *message.Message
	message.Subscriber
}

// Subscribe returns the messages that there are.
func (s subscribed) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return s.messages, nil
}

// router tries again, then parks. A message that is not at fault is not parked; it
// comes again, and the ones behind it wait.
func (b *Bus) router() (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: closeLimit}, quiet(b.log))
	if err != nil {
		return nil, fmt.Errorf("make a router: %w", err)
	}
	park, err := middleware.PoisonQueueWithFilter(lot{b}, Parked, poisonous)
	if err != nil {
		return nil, fmt.Errorf("make a router: %w", err)
	}
	again := middleware.Retry{
		MaxRetries: b.retries.most, InitialInterval: b.retries.first, MaxInterval: b.retries.last, Multiplier: factor,
		ResetContextOnRetry: true,
	}
	router.AddMiddleware(park, again.Middleware, middleware.Timeout(b.retries.each), middleware.Recoverer)
	return router, nil
}

// poisonous reports whether the message is at fault, and not that the service
// stops or something that the consumer needs is away for longer than the tries.
func poisonous(err error) bool { return !errors.Is(err, context.Canceled) && !fault.Away(err) }

// lot is where messages are parked, loudly.
type lot struct{ *Bus }

// Publish parks messages.
func (l lot) Publish(topic string, list ...*message.Message) error {
	for _, m := range list {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.Context()), l.retries.slack)
		_, err := l.publish(ctx, topic, m.Copy())
		cancel()
		if err != nil {
			return err
		}
		l.log.Error("a message was parked", "id", m.UUID, "kind", m.Metadata.Get(metaKind), "workspace", m.Metadata.Get(metaWorkspace),
			"seq", m.Metadata.Get(metaSeq), "consumer", m.Metadata.Get(middleware.PoisonedHandlerKey), "err", m.Metadata.Get(middleware.ReasonForPoisonedKey))
	}
	return nil
}

// Close leaves the bus open: it is not the lot's.
func (l lot) Close() error { return nil }
