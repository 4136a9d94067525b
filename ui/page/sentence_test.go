package page

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// A refusal names fields as the pages do, and always in the same order.
func TestSentences(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"The name must have 3 or more characters. Scopes must not be empty.": `{"code":"validation_failed","message":"No.",
			"details":{"scopes":["must have 1 or more items"],"name":["must have 3 or more characters"]}}`,
		"The last event must not be beyond the newest event, 7444.": `{"code":"validation_failed",
			"details":{"toSeq":["must not be beyond the newest record, 7444"]}}`,
		"The time must be a date such as 2026-11-20.": `{"code":"validation_failed",
			"details":{"from":["must be a time such as 2026-11-20T23:56:25.123Z"]}}`,
		"Labels must not be there twice.": `{"code":"validation_failed","details":{"labels[1]":["must not be there twice"]}}`,
		"The input must be a number.":     `{"code":"validation_failed","details":{"unknown":["must be a number"]}}`,
		"The email address is missing or not valid.": `{"code":"VALIDATION_ERROR",` +
			`"message":"[body.email] Invalid input: expected string"}`,
		"This is the workspace's last owner.": `{"code":"last_owner","message":"This is the workspace's last owner."}`,
		"Some of what was sent does not fit the description.": `{"code":"validation_failed",` +
			`"message":"Some of what was sent does not fit the description."}`,
	} {
		r := &client.Refused{}
		require.NoError(t, json.Unmarshal([]byte(text), r))
		require.Equal(t, want, Sentence(r))
	}
}
