package atomicfile

// MkdirAllWith is [MkdirAll] with another function for SyncDir.
var MkdirAllWith = mkdirAll
