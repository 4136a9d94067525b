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

// A Consumer processes events. Processes that run consumers of the same name share the
// messages: each message goes to one of them, and messages that arrive while none is
// running wait. A consumer that is Live gets every message in every process, from the
// moment on that it subscribes.
//
// If Handle fails, the message is retried a few times and then parked. If the error says that
// something is unavailable ([fault.IsUnavailable]), it is retried until that is back. The message's
// context ends after a few seconds, and Handle has to return then: on NATS, another process
// gets a message that is held for longer than all tries may take. Messages are processed
// one after the other, so Handle should pass on long work.
type Consumer struct {
	Name   string
	Live   bool
	Knows  Knows // for live consumers; nil: none is known
	Handle func(m *message.Message) error
}

// Knows reports whether a live consumer knows an event already; its process appended most
// of them. The message of such an event may be left out.
type Knows func(workspace events.ID, seq int64) bool

func (c Consumer) group() string {
	if c.Live {
		return ""
	}
	return c.Name
}

// retries says how often, and how soon, a failed message is retried.
type retries struct {
	max                int           // retries after the first try
	minPause, maxPause time.Duration // pauses between tries, each pauseFactor times the one before
	tryTimeout         time.Duration // time limit of a try
	slack              time.Duration // limit for parking the message, or for acknowledging it
}

const pauseFactor = 3

var defaultRetries = retries{4, 100 * time.Millisecond, 3 * time.Second, 3 * time.Second, 10 * time.Second} // tests use shorter times

// longestDelivery returns how long a process may take for a message.
func (r retries) longestDelivery() time.Duration {
	sum, pause := r.tryTimeout+r.slack, r.minPause
	for range r.max {
		sum += pause + r.tryTimeout
		pause = min(pauseFactor*pause, r.maxPause)
	}
	return sum
}

const (
	closeLimit = 5 * time.Second // for a message that is being processed when the service stops
	minBackoff = time.Second     // before a failed bus is retried, doubled each time, up to maxBackoff
	maxBackoff = 30 * time.Second
)

// Run opens the bus and runs the relay and the consumers on it until ctx ends. Failures are
// logged and retried: the bus may be unavailable at any time, also when the service starts,
// which stops nothing but its own work.
func Run(ctx context.Context, cfg Config, relay *Relay, consumers ...Consumer) {
	cfg.retry(ctx, "open the bus", func() error {
		b, err := Open(ctx, cfg)
		if err != nil {
			return err
		}
		var group sync.WaitGroup
		group.Go(func() { relay.run(ctx, b) })
		for _, c := range consumers {
			group.Go(func() {
				cfg.retry(ctx, "consume "+c.Name, func() error { return b.consume(ctx, c) })
			})
		}
		group.Wait()
		if err := b.Close(); err != nil {
			cfg.Log.Warn("close the bus", "err", err)
		}
		return nil
	})
}

// retry calls do until it succeeds or ctx ends, with a backoff.
func (cfg Config) retry(ctx context.Context, what string, do func() error) {
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		begun := time.Now()
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(begun) > 2*maxBackoff { // it worked for long enough
			pause = minBackoff
		}
		cfg.Log.Error("the bus is unavailable", "at", what, "again_in", pause, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// consume processes messages until ctx ends, or their source does.
func (b *Bus) consume(ctx context.Context, c Consumer) error {
	// Messages outlive ctx: the one that is being processed is finished.
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
	router.AddConsumerHandler(c.Name, Topic, subscribed{messages, subscriber}, c.Handle)
	var stopping sync.WaitGroup
	ended := make(chan struct{})
	stopping.Go(func() {
		select {
		case <-ctx.Done():
			<-router.Running()
			_ = router.Close() // if it takes too long, its message is redelivered
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

// subscribed is a subscriber whose subscription exists already. A router that fails to
// subscribe would otherwise wait for it for ever.
type subscribed struct {
	messages <-chan *message.Message
	message.Subscriber
}

// Subscribe returns the existing subscription's messages.
func (s subscribed) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return s.messages, nil
}

// router returns a router that retries and then parks. A message that is not at fault is
// not parked: it is redelivered, and those behind it wait.
func (b *Bus) router() (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: closeLimit}, quietLogger(b.log))
	if err != nil {
		return nil, fmt.Errorf("make a router: %w", err)
	}
	park, err := middleware.PoisonQueueWithFilter(parkedPublisher{b}, Parked, shouldPark)
	if err != nil {
		return nil, fmt.Errorf("make a router: %w", err)
	}
	again := middleware.Retry{
		MaxRetries: b.retries.max, InitialInterval: b.retries.minPause, MaxInterval: b.retries.maxPause, Multiplier: pauseFactor,
		ResetContextOnRetry: true,
	}
	router.AddMiddleware(park, again.Middleware, middleware.Timeout(b.retries.tryTimeout), middleware.Recoverer)
	return router, nil
}

// shouldPark reports whether an error is the message's fault. It is not if the service is
// stopping, or if something that the consumer needs is unavailable.
func shouldPark(err error) bool {
	return !errors.Is(err, context.Canceled) && !fault.IsUnavailable(err)
}

// parkedPublisher publishes parked messages and logs an error for each.
type parkedPublisher struct{ *Bus }

// Publish parks messages.
func (p parkedPublisher) Publish(topic string, list ...*message.Message) error {
	for _, m := range list {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.Context()), p.retries.slack)
		_, err := p.publish(ctx, topic, m.Copy())
		cancel()
		if err != nil {
			return err
		}
		p.log.Error("a message was parked", "id", m.UUID, "kind", m.Metadata.Get(metaKind), "workspace", m.Metadata.Get(metaWorkspace),
			"seq", m.Metadata.Get(metaSeq), "consumer", m.Metadata.Get(middleware.PoisonedHandlerKey),
			"err", m.Metadata.Get(middleware.ReasonForPoisonedKey))
	}
	return nil
}

// Close does nothing, because the bus stays open.
func (p parkedPublisher) Close() error { return nil }
