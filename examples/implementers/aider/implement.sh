# aider, 0.86 or later. Secrets: the key of the model, such as ANTHROPIC_API_KEY. AIDER_MODEL names the model.
. "${0%/*}/../lib.sh"

message=$(mktemp) history=$(mktemp)
prompt >"$message"
aider --yes-always --no-auto-commits --no-gitignore --no-check-update --no-show-release-notes --no-pretty --no-suggest-shell-commands \
	--chat-history-file "$history" --input-history-file /dev/null --message-file "$message" 2>&1 | tee "$log" || true

# It prints what each message and all of them cost: "Tokens: 4.1k sent, 310 received. Cost: $0.02 message, $0.05 session."
dollars=$(sed -n 's/.*Cost: \$[0-9.]* message, \$\([0-9.]*\) session.*/\1/p' "$log" | tail -n 1)
answers=$(grep -c '^Tokens: ' "$log" || true)
refused=$(sed -En 's/.*litellm\.([A-Za-z]*Error|Timeout).*/\1/p' "$log" | tail -n 1)

# An error after which an answer came is none.
if awk '/^Tokens: / { said = NR } /litellm\.([A-Za-z]*Error|Timeout)/ { failed = NR } END { exit said <= failed }' "$log"; then
	status=done
else
	case $refused in
	AuthenticationError | PermissionDeniedError | RateLimitError | InternalServerError | ServiceUnavailableError | APIConnectionError | Timeout)
		status=unavailable ;;
	'') exit 1 ;; # it has said nothing
	*) status=incomplete ;;
	esac
fi

tail -n 40 "$log" | jq -Rs --arg status "$status" --arg dollars "$dollars" --arg answers "$answers" '
	{status: $status, summary: .}
	+ if $dollars != "" then {cost: {cents: ($dollars | tonumber * 100)}}
	  elif $answers == "0" then {cost: {cents: 0}}
	  else {} end
' | outcome
