package main

import (
	"context"
	"fmt"

	"svc/dev/pgserver"
)

// startPostgres starts the private PostgreSQL unless a database is given.
func (s *stack) startPostgres(ctx context.Context) error {
	if !s.DatabaseURL.IsZero() {
		return nil
	}
	s.say("starting PostgreSQL")
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: s.folder.file("postgres"), Durable: true, Log: s.log})
	if err != nil {
		return fmt.Errorf("%w\nSVC_DATABASE_URL can name a database to use instead", err)
	}
	s.server = server
	s.onStop(s.stopPostgres)
	go func() { // until stopPostgres
		<-server.Done()
		s.ended(fmt.Errorf("PostgreSQL ended by itself: its log is %s", s.folder.file("postgres/postgres.log")))
	}()
	return nil
}

// stopPostgres stops the private PostgreSQL and waits for its end. A forced stop does not wait;
// PostgreSQL then ends with svc.
func (s *stack) stopPostgres() {
	s.say("stopping PostgreSQL")
	stopped := make(chan error, 1)
	go func() { stopped <- s.server.Stop() }() // Stop has its own timeouts
	select {
	case err := <-stopped:
		if err != nil {
			s.log.Warn("stop PostgreSQL", "err", err)
		}
	case <-s.force:
	}
}
