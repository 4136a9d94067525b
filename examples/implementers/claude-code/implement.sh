# Claude Code, 2.1 or later. Secret: ANTHROPIC_API_KEY.
. "${0%/*}/../lib.sh"

# It says something for each message, so that it does not count as idle.
budget=$(dollars)
prompt | claude -p --verbose --output-format stream-json --permission-mode acceptEdits \
	--allowedTools Bash,Edit,Write,Read,Glob,Grep ${budget:+--max-budget-usd "$budget"} 2>&1 | tee "$log"

# The subtype of a failed request is success, too: is_error tells.
events | jq -s 'map(select(.type == "result")) | last // empty | {
	status: (if (.is_error | not) then "done"
		elif (.api_error_status // 0) | . == 401 or . == 403 or . == 408 or . == 429 or . >= 500 then "unavailable"
		else "incomplete" end),
	summary: (.result // .subtype),
	cost: {
		cents: (.total_cost_usd | if . == null then null else . * 100 end),
		inputTokens: ([.usage.input_tokens, .usage.cache_creation_input_tokens, .usage.cache_read_input_tokens] | map(. // 0) | add),
		outputTokens: (.usage.output_tokens // 0)
	}
}' | outcome
