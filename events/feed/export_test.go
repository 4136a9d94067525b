package feed

import "time"

// PollEvery sets how often f reads the heads of watched logs.
func (f *Feed) PollEvery(d time.Duration) { f.poll = d }
