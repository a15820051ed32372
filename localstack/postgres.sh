#!/usr/bin/env bash
# PostgreSQL from the packages of Debian, with a database of its own that is gone with down.
#
#   localstack/postgres.sh up|down         PORT defaults to 5433
#   localstack/postgres.sh kill            ends it with SIGKILL and starts it again, with what it had committed
#   localstack/postgres.sh env             prints POSTGRES_URL, and the command POSTGRES_KILL: eval "$(localstack/postgres.sh env)"
#   localstack/postgres.sh run COMMAND...  starts it, runs a command with POSTGRES_URL, and stops it
#
# As root it is installed if it is missing, and runs as the user postgres.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/process.sh"
port=${PORT:-5433}
dir=${TMPDIR:-/tmp}/once-postgres.$port.$(id -u)

bin() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }

install() {
	[ -n "$(bin)" ] && return
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "$0 needs the package postgresql" >&2
		exit 1
	fi
	echo "installing postgresql, this once" >&2
	packages postgresql
}

# as_user runs a program of PostgreSQL, which refuses to run as root.
as_user() {
	local program
	program=$(bin)/$1
	shift
	if [ "$(id -u)" -eq 0 ]; then set -- setpriv --reuid postgres --regid postgres --clear-groups "$program" "$@"; else set -- "$program" "$@"; fi
	(cd / && exec "$@")
}

ready() { as_user pg_isready -q -h 127.0.0.1 -p "$port"; }

begin() { as_user pg_ctl -s -w -D "$dir/data" -l "$dir/log" -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=" start; }

up() {
	install
	if ready; then return; fi
	if answers "$port"; then
		echo "something else listens on port $port: set PORT" >&2
		exit 1
	fi
	rm -rf "$dir"
	mkdir -p "$dir"
	[ "$(id -u)" -ne 0 ] || chown postgres "$dir"
	as_user initdb -D "$dir/data" -U postgres -A trust -E UTF8 --no-sync >"$dir/initdb.log"
	begin || { tail -n 20 "$dir/log" >&2; exit 1; }
	echo "up on 127.0.0.1:$port"
}

down() {
	[ -d "$dir" ] || return 0
	as_user pg_ctl -s -w -m immediate -D "$dir/data" stop || true
	rm -rf "$dir"
}

case ${1:-} in
up | down) "$1" ;;
kill)
	as_user pg_ctl -s -D "$dir/data" kill KILL "$(head -n 1 "$dir/data/postmaster.pid")"
	# Its children hold the shared memory until they notice.
	for _ in $(seq 300); do begin 2>/dev/null && exit; sleep 0.1; done
	exit 1
	;;
env)
	echo "export POSTGRES_URL='postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable'"
	echo "export POSTGRES_KILL='PORT=$port $here/postgres.sh kill'"
	;;
run)
	shift
	trap down EXIT
	up
	eval "$("$0" env)"
	"$@"
	;;
*) usage "$0" 'up|down|kill|env|run COMMAND...' ;;
esac
