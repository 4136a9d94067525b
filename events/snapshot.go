package events

// A Snapshot is what the events of a stream came to at a version. It is made from
// the log and says nothing that the log does not.
type Snapshot struct {
	Form    int // what State means; whoever knows another form goes without
	Version int
	Seq     int64  // of the newest event in it
	State   []byte // JSON
}
