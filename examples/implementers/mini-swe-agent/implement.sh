# mini-swe-agent, 2.4 or later. Secrets: the key of the model, such as ANTHROPIC_API_KEY. MSWEA_MODEL_NAME names the model.
. "${0%/*}/../lib.sh"

export MSWEA_CONFIGURED=true # ask nothing
trajectory=$(mktemp)
budget=$(dollars)
# A text of an argument can have 128 KiB.
mini -y --exit-immediately -t "$(prompt | head -c 100000)" -o "$trajectory" ${budget:+-l "$budget"} 2>&1 | tee "$log" || true

# Its limit of calls and money is none of the model's.
jq '.info | select(.exit_status) | {
	status: (if .exit_status == "Submitted" then "done"
		elif .exit_status | test("Authentication|PermissionDenied|RateLimit|ServiceUnavailable|InternalServer|APIConnection|APIError|^Timeout")
		then "unavailable" else "incomplete" end),
	summary: "It ended as \(.exit_status). \(.submission // "")",
	# It counts a model whose price it does not know as free.
	cost: (.model_stats | if (.instance_cost // 0) > 0 or .api_calls == 0 then {cents: (.instance_cost // 0 | . * 100)} else {} end)
}' "$trajectory" | outcome
