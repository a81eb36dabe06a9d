# Says what is on this host: `look ACCOUNT HOME BINARY FILE...`. Every line of the answer has a prefix, since a login may print things.
set -u
LC_ALL=C export LC_ALL
account=$1 home=$2 binary=$3
shift 3
fact() { printf 'stado-fact %s\n' "$*"; }
fact system "$(uname -s)"
fact machine "$(uname -m)"
fact uid "$(id -u)"
fact login "$(id -un)"
fact group "$(id -gn)"
[ -r /proc/sys/kernel/random/boot_id ] && fact boot "$(cat /proc/sys/kernel/random/boot_id)"
for tool in cat chmod chown mkdir mktemp mv rm sha256sum stat; do
	command -v "$tool" >/dev/null 2>&1 || fact missing "$tool"
done
[ -z "$account" ] || { id -u "$account" >/dev/null 2>&1 && fact account "$account"; }
[ -d "$home" ] && fact home "$(stat -c '%a %U' "$home")"
[ -e "$home/.bootstrap" ] && fact pending yes
for file; do
	[ -e "$file" ] || [ -L "$file" ] || continue
	if [ ! -f "$file" ] || [ ! -r "$file" ]; then
		fact unusable "$file"
		continue
	fi
	sum=$(sha256sum <"$file") || exit 1
	mark=foreign
	grep -q -F 'Written by `stado host bootstrap`' "$file" && mark=ours
	fact file "${sum%% *} $(stat -c '%a %U' "$file") $mark $file"
done
if [ -r "$home/agent.lock" ] && read -r pid <"$home/agent.lock" && exe=$(readlink "/proc/$pid/exe" 2>/dev/null); then
	case $exe in "$binary" | "$binary (deleted)") fact agent "$pid" ;; esac
fi
if [ -d /run/systemd/system ]; then
	fact systemd running
	systemctl is-enabled -q stado.service 2>/dev/null && fact enabled yes
	systemctl is-active -q stado.service 2>/dev/null && fact active yes
fi
fact end
