# OpenHands CLI, 1.16 or later. Secret: LLM_API_KEY. LLM_MODEL names the model, and LLM_BASE_URL its server. It prints neither
# money nor tokens, so the cost is unknown: with a budget, a run ends after one round.
. "${0%/*}/../lib.sh"

task=$(mktemp)
prompt >"$task"
openhands --headless --json --override-with-envs -f "$task" 2>&1 | tee "$log" || true

# Each event is printed over several lines, after a line that says so.
awk '/^--JSON Event--$/ { on = 1; next } on { print } /^}$/ { on = 0 }' "$log" | jq -s '
	(map(select(.kind == "ConversationErrorEvent" or .kind == "AgentErrorEvent")) | last) as $error
	| (map(select(.kind == "MessageEvent" and .source == "agent").llm_message.content[]?.text)
		+ map(select(.kind == "ActionEvent").action | select(.kind == "FinishAction").message) | last) as $said
	| select($error or $said)
	| if $said and (last | .kind != "ConversationErrorEvent") then {status: "done", summary: $said}
	  elif "\($error.code) \($error.detail // $error.error)" | test("Authentication|RateLimit|ServiceUnavailable|InternalServer|Timeout|Connection|\\b(401|403|429|5[0-9][0-9])\\b")
	  then {status: "unavailable", summary: ($error.detail // $error.error)}
	  else {status: "incomplete", summary: ($error.detail // $error.error)} end
' | outcome
