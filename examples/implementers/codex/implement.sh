# Codex CLI, 0.171 or later. Secret: CODEX_API_KEY. It prints tokens and no money: set the prices of the model in the settings of
# the repository.
. "${0%/*}/../lib.sh"

# The job has a sandbox of its own, in which that of Codex cannot be set up.
prompt | codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox - 2>&1 | tee "$log" || true

events | jq -s '
	(map(select(.type == "turn.completed")) | last) as $done
	| (map(select(.type == "turn.failed")) | last.error.message) as $error
	| (map(select(.type == "item.completed" and .item.type != "error"))) as $items
	| select($done or $error)
	| {
		status: (if $done then "done"
			elif $error | test("\\b(401|403|408|429|5[0-9][0-9])\\b|usage limit|rate limit|quota|stream disconnected|error sending request"; "i")
			then "unavailable" else "incomplete" end),
		summary: (if $done then ($items | map(select(.item.type == "agent_message").item.text) | last) else $error end)
	}
	+ if $done then {cost: {inputTokens: $done.usage.input_tokens, outputTokens: $done.usage.output_tokens}}
	  elif $items == [] then {cost: {cents: 0}} # the model has answered nothing
	  else {} end
' | outcome
