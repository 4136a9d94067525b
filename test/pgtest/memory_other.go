//go:build !linux

package pgtest

// memory is "": only Linux has a folder in memory at a known place.
func memory() string { return "" }
