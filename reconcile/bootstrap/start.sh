# Starts the agent anew and leaves it to itself: `start ACCOUNT HOME BINARY`.
set -u
account=$1 home=$2 binary=$3
running() {
	pid=
	[ -r "$home/agent.lock" ] && read -r pid <"$home/agent.lock" || return 1
	case $(readlink "/proc/$pid/exe" 2>/dev/null) in "$binary" | "$binary (deleted)") return 0 ;; esac
	return 1
}
if running; then
	old=$pid n=0
	kill -TERM "$old" || exit 1
	while kill -0 "$old" 2>/dev/null; do
		n=$((n + 1))
		[ "$n" -ne 300 ] || kill -KILL "$old" # as systemd does after TimeoutStopSec
		[ "$n" -le 600 ] || { echo "the agent with pid $old did not end within a minute" >&2 && exit 1; }
		sleep 0.1
	done
fi
log=$home/agent.log
cd "$home" || exit 1
if [ "$account" = "$(id -un)" ]; then
	nohup "$binary" agent run --home "$home" >>"$log" 2>&1 </dev/null &
else
	: >>"$log" && chown "$account" "$log" || exit 1
	su -s /bin/sh "$account" -c "nohup $binary agent run --home $home >>$log 2>&1 </dev/null &" || exit 1
fi
n=0
until running; do
	n=$((n + 1))
	[ "$n" -le 600 ] || { echo "the agent did not start within a minute; $log ends with: $(tail -n 1 "$log")" >&2 && exit 1; }
	sleep 0.1
done
rm -f "$home/.bootstrap"
echo "stado-fact agent $pid"
