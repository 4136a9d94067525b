package bus

import (
	"context"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// A subscription runs a subscriber's goroutine that delivers messages until its context ends or it
// is closed. It owns the channel and closes it.
type subscription struct {
	closing *sync.Once
	closed  chan struct{}
	group   *sync.WaitGroup
}

func newSubscription() subscription {
	return subscription{closing: new(sync.Once), closed: make(chan struct{}), group: new(sync.WaitGroup)}
}

// read starts do, which sends the messages. Its context ends when the subscription is closed.
func (s subscription) read(ctx context.Context, do func(context.Context, chan<- *message.Message)) <-chan *message.Message {
	ctx, cancel := context.WithCancel(ctx)
	messages := make(chan *message.Message)
	s.group.Go(func() {
		defer close(messages)
		defer cancel()
		do(ctx, messages)
	})
	s.group.Go(func() {
		select {
		case <-s.closed:
			cancel()
		case <-ctx.Done():
		}
	})
	return messages
}

// Close ends the subscription and waits for it.
func (s subscription) Close() error {
	s.closing.Do(func() { close(s.closed) })
	s.group.Wait()
	return nil
}
