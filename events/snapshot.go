package events

// A Snapshot is the state of a stream at a version. It is computed from the log and can be
// dropped.
type Snapshot struct {
	Form    int // the format of State; a build that uses another format ignores the snapshot
	Version int
	Seq     int64  // of the newest event that it includes
	State   []byte // JSON
}
