package bus

import (
	"context"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// A reading is what a subscriber of ours does: a goroutine that hands messages on until
// its context ends or it is closed. Nobody else sends to the channel, which it closes.
type reading struct {
	closing *sync.Once
	closed  chan struct{}
	group   *sync.WaitGroup
}

func newReading() reading {
	return reading{closing: new(sync.Once), closed: make(chan struct{}), group: new(sync.WaitGroup)}
}

// read has do hand messages on. The context of do ends when the reading is closed.
func (r reading) read(ctx context.Context, do func(context.Context, chan<- *message.Message)) <-chan *message.Message {
	ctx, cancel := context.WithCancel(ctx)
	messages := make(chan *message.Message)
	r.group.Go(func() {
		defer close(messages)
		defer cancel()
		do(ctx, messages)
	})
	r.group.Go(func() {
		select {
		case <-r.closed:
			cancel()
		case <-ctx.Done():
		}
	})
	return messages
}

// Close ends it, and waits.
func (r reading) Close() error {
	r.closing.Do(func() { close(r.closed) })
	r.group.Wait()
	return nil
}
