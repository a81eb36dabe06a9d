# Follows the look at a host: what its agent says of itself, and what it said last: HOME and BINARY are set.
say() { while IFS= read -r line; do printf 'stado-fact %s %s\n' "$1" "$line"; done; }
[ -x "$binary" ] && "$binary" agent status --home "$home" --json 2>&1 | say said
if [ -r "$home/agent.log" ]; then
	tail -n 1 "$home/agent.log" | say log
elif [ -d /run/systemd/system ] && command -v journalctl >/dev/null 2>&1; then
	journalctl --unit stado.service --lines 1 --output cat --quiet 2>/dev/null | say log
fi
