package projections

import "time"

// PollEvery sets how often l looks for what nobody told it of.
func (l *Live) PollEvery(d time.Duration) { l.poll = d }
