// Package lru makes caches of a fixed size that forget what was least recently used.
package lru

import lru "github.com/hashicorp/golang-lru/v2"

// A Cache keeps the most recently used entries. Its methods may be called concurrently.
type Cache[K comparable, V any] = lru.Cache[K, V]

// New returns an empty cache of at most size entries. It panics if size is below one.
func New[K comparable, V any](size int) *Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err)
	}
	return c
}
