//go:build !race

package api

import (
	"maps"
	"testing"
)

const atOnce = 1000

// Where one request follows the other the race detector finds nothing that it does
// not find in the packages' own tests, and takes four times as long.
func init() {
	maps.Copy(parts, sequential)
	afterwards["fair shares"] = testFairness
}

var sequential = map[string]func(*testing.T, *site){
	"OpenAPI":       testOpenAPI,
	"access":        testAccess,
	"bad input":     testBadInput,
	"conversations": testConversations,
	"credentials":   testCredentials,
	"daily bounds":  testDailyBounds,
	"denials":       testDenials,
	"description":   testDescription,
	"farm":          testFarm,
	"forwarded":     testForwarded,
	"health":        testHealth,
	"hostile":       testHostile,
	"kept text":     testKeptText,
	"lost key":      testLostKey,
	"look-alikes":   testLookAlikes,
	"members":       testMembers,
	"methods":       testMethods,
	"metrics":       testMetrics,
	"misplaced":     testMisplaced,
	"omitted":       testOmittedDenials,
	"order":         testOrder,
	"parameters":    testParameters,
	"proof":         testProof,
	"search":        testSearch,
	"start-up":      testStartUp,
	"strangers":     testStrangers,
}
