//go:build !race

package api

import (
	"maps"
	"testing"
)

const parallelRequests = 1000

// init adds the tests that send one request at a time. They are left out under the race detector,
// which would find nothing that the packages' own tests do not show, in four times the time.
func init() {
	maps.Copy(parts, sequentialParts)
	exclusiveParts["fair shares"] = testFairness
}

var sequentialParts = map[string]func(*testing.T, *fixture){
	"OpenAPI":               testOpenAPI,
	"access":                testAccess,
	"bad input":             testBadInput,
	"conversations":         testConversations,
	"credential precedence": testCredentialPrecedence,
	"daily quotas":          testDailyQuotas,
	"denials":               testDenials,
	"description":           testDescription,
	"farm":                  testFarm,
	"forged person":         testForgedPerson,
	"forwarded addresses":   testForwardedAddresses,
	"health":                testHealth,
	"hostile input":         testHostileInput,
	"stored text":           testStoredText,
	"lost key":              testLostKey,
	"look-alike addresses":  testLookAlikeAddresses,
	"members":               testMembers,
	"methods":               testMethods,
	"metrics":               testMetrics,
	"misplaced tokens":      testMisplacedTokens,
	"order of refusals":     testOrderOfRefusals,
	"parameters":            testParameters,
	"proof":                 testProof,
	"search":                testSearch,
	"start-up":              testStartUp,
	"tenant isolation":      testTenantIsolation,
}
