//go:build !linux

package pgtest

// memoryFolder returns "": only Linux has a folder in memory at a known path.
func memoryFolder() string { return "" }
