# What the implementers of these folders share. They are sh and need jq.
#
# None writes an outcome when it is killed: then nobody knows what the work cost.
set -eu

log=$(mktemp)

# prompt prints the task as text for a model.
prompt() {
	jq -r '
		"Solve this issue in the repository in the current directory. Change its files, and nothing outside of it.",
		"Do not commit, push or open pull requests: that is done for you. Nobody answers questions.",
		"\nIssue #\(.issue.number): \(.issue.title)\n\n\(.issue.body)",
		(.facts | select(length > 0) | "\nWhat is known of it:\n- " + join("\n- ")),
		(.findings | select(length > 0) | "\nWhy earlier attempts were not enough, the last one at the end:\n- " + join("\n- ")),
		(select(.stage == "conflict") | "\nThe branch has moved. Make the change anew that the diff below made."),
		(.previousDiff // empty | "\nWhat an earlier attempt changed, which is not in the files:\n\(.)"),
		(.logTail // empty | "\nThe end of the log of the job that failed:\n\(.)"),
		(.instructions // empty | "\nInstructions of the repository:\n\(.)"),
		"\nChange at most \(.limits.files) files and \(.limits.lines) lines."
	' "$SVC_IN/task.json"
}

# dollars prints nine tenths of the cents that are left, in dollars, since tools notice a limit only after they have passed
# it; or nothing if there is no limit.
dollars() { jq -r '.limits.cents | select(. > 0) | . * 0.9 / 100' "$SVC_IN/task.json"; }

# events prints the JSON objects among the lines of the log.
events() { jq -cR 'fromjson? | select(type == "object")' "$log"; }

# outcome reads {status, summary, cost} and writes it as the outcome; it writes none if there is nothing to read.
outcome() {
	jq '.summary |= (. // "" | .[:9000])' >"$SVC_OUT/outcome.new"
	if test -s "$SVC_OUT/outcome.new"; then
		mv "$SVC_OUT/outcome.new" "$SVC_OUT/outcome.json"
	else
		rm "$SVC_OUT/outcome.new"
	fi
}
