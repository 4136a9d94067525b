//go:build race

package api

const atOnce = 200 // each request takes ten times as long
