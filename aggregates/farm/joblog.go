package farm

import "svc/events"

// A jobLog is what is known of the log of an epoch. The zero value is that of a log that is not final, and of which the
// runner has said nothing.
type jobLog struct {
	sent   events.JobLogSummary // what the runner says that it has sent, until the log is final
	sealed bool                 // it is final
}

// noteLog records what a runner says that it has sent.
func (j *Job) noteLog(epoch int, sent events.JobLogSummary) {
	if j.logs != nil { // nil: the stream is not a job's
		j.logs[epoch] = jobLog{sent: sent}
	}
}

// noteReport is noteLog for an attempt that failed. r is nil if its runner has reported nothing.
func (j *Job) noteReport(epoch int, r *events.JobAttemptReport) {
	if r != nil {
		j.noteLog(epoch, r.Log)
	}
}

// A StoredLog is the log of an epoch as the service has it.
type StoredLog struct {
	Epoch         int
	Bytes, Chunks int64
	SHA256        string

	Cut      bool // the service did not store all of it, because of a limit
	CutKnown bool
}

// SealLog records that nothing will be added to the log of an epoch, and whether it is what the runner says that it has
// sent. A repetition returns no event.
func (j *Job) SealLog(l StoredLog) ([]events.Event, error) {
	of := j.logs[l.Epoch]
	switch {
	case l.Epoch < 1 || l.Epoch > j.epoch || l.Epoch == j.epoch && j.state.Held():
		return nil, ErrJobNotFinished
	case of.sealed:
		return nil, nil
	}
	return oneEvent(events.JobLogSealed{
		Epoch: l.Epoch, Bytes: l.Bytes, Chunks: l.Chunks, SHA256: l.SHA256,
		Truncated: l.truncated(of.sent), Integrity: l.integrity(of.sent),
	})
}

// OpenLogs returns the epochs that are over and whose logs are not final.
func (j *Job) OpenLogs() (epochs []int) {
	last := j.epoch
	if j.state.Held() {
		last--
	}
	for epoch := 1; epoch <= last; epoch++ {
		if !j.logs[epoch].sealed {
			epochs = append(epochs, epoch)
		}
	}
	return epochs
}

// truncated reports whether the end of the log is missing. If it is not known whether the service cut it, it did if
// the runner has sent more.
func (l StoredLog) truncated(sent events.JobLogSummary) bool {
	return l.Cut || sent.Truncated || !l.CutKnown && l.Bytes < sent.Bytes
}

// integrity compares the log with what the runner says that it has sent, which has no sum if it said nothing. The end
// of a log that was cut is missing.
func (l StoredLog) integrity(sent events.JobLogSummary) string {
	switch {
	case sent.SHA256 == "", l.truncated(sent) && l.Bytes < sent.Bytes:
		return "incomplete"
	case sent.Bytes == l.Bytes && sent.SHA256 == l.SHA256:
		return "verified"
	}
	return "mismatch"
}
