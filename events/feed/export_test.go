package feed

import "time"

// PollEvery sets how often f looks for what nobody told it of.
func (f *Feed) PollEvery(d time.Duration) { f.poll = d }
