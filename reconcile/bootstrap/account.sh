# Says what a login of this host is: `account USER`.
set -u
LC_ALL=C export LC_ALL
fact() { printf 'stado-fact %s\n' "$*"; }
fact system "$(uname -s)"
fact machine "$(uname -m)"
fact uid "$(id -u)"
fact login "$(id -un)"
tools='cat chmod chown getent mkdir mktemp mv rm sha256sum'
[ "$(id -u)" -ne 0 ] || tools="$tools su useradd usermod" # which nobody else needs, nor finds
for tool in $tools; do
	command -v "$tool" >/dev/null 2>&1 || fact missing "$tool"
done
if entry=$(getent passwd "$1"); then
	fact account "$1"
	home=${entry%:*} home=${home##*:}
	fact shell "${entry##*:}"
	fact home-directory "$home"
	case $(getent shadow "$1" | cut -d: -f2) in '!'*) fact locked yes ;; esac
	# As the account itself: where its links lead is its own affair.
	file='cat "$1" 2>/dev/null'
	if [ "$(id -un)" = "$1" ]; then
		/bin/sh -c "$file" keys "$home/.ssh/authorized_keys"
	else
		su -s /bin/sh -c "$file" "$1" keys "$home/.ssh/authorized_keys"
	fi | while IFS= read -r line || [ -n "$line" ]; do printf 'stado-fact key %s\n' "$line"; done
fi
fact end
