#!/usr/bin/env bash
# MariaDB from the packages of Debian, with a database of its own that is gone with down.
#
#   localstack/mariadb.sh up|down         PORT defaults to 3307
#   localstack/mariadb.sh kill            ends it with SIGKILL and starts it again, with what it had committed
#   localstack/mariadb.sh env             prints MARIADB_DSN: eval "$(localstack/mariadb.sh env)"
#   localstack/mariadb.sh run COMMAND...  starts it, runs a command with MARIADB_DSN, and stops it
#
# As root it is installed if it is missing, and runs as the user mysql.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/process.sh"
port=${PORT:-3307}
dir=${TMPDIR:-/tmp}/once-mariadb.$port.$(id -u)
export TMPDIR=$dir # that of the caller may not be writable for the user mysql
PATH=$PATH:/usr/sbin

install() {
	command -v mariadbd >/dev/null && return
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "$0 needs the package mariadb-server" >&2
		exit 1
	fi
	echo "installing mariadb-server, this once" >&2
	packages mariadb-server
}

user() { if [ "$(id -u)" -eq 0 ]; then echo mysql; else id -un; fi; }

begin() {
	mariadbd --no-defaults --user="$(user)" --datadir="$dir/data" --pid-file="$dir/pid" --socket="$dir/socket" --port="$port" \
		--bind-address=127.0.0.1 --skip-log-bin --innodb-buffer-pool-size=64M >>"$dir/log" 2>&1 9>&- &
	for _ in $(seq 600); do
		if mariadb-admin --no-defaults --socket="$dir/socket" -u root --silent ping >/dev/null 2>&1; then return; fi
		sleep 0.1
	done
	tail -n 20 "$dir/log" >&2
	return 1
}

up() {
	install
	if answers "$port"; then
		echo "something else listens on port $port: set PORT" >&2
		exit 1
	fi
	rm -rf "$dir"
	mkdir -p "$dir"
	[ "$(id -u)" -ne 0 ] || chown mysql "$dir"
	mariadb-install-db --no-defaults --user="$(user)" --datadir="$dir/data" --auth-root-authentication-method=normal --skip-test-db >"$dir/install.log" 2>&1
	begin
	mariadb --no-defaults --socket="$dir/socket" -u root -e "CREATE DATABASE once; CREATE USER once@'127.0.0.1' IDENTIFIED BY ''; GRANT ALL ON once.* TO once@'127.0.0.1'"
	echo "up on 127.0.0.1:$port"
}

down() {
	[ -d "$dir" ] || return 0
	if [ -s "$dir/pid" ]; then kill -KILL "$(cat "$dir/pid")" 2>/dev/null || true; fi
	rm -rf "$dir"
}

case ${1:-} in
up | down) "$1" ;;
kill)
	kill -KILL "$(cat "$dir/pid")"
	while kill -0 "$(cat "$dir/pid")" 2>/dev/null; do sleep 0.05; done
	begin
	;;
env) echo "export MARIADB_DSN='once@tcp(127.0.0.1:$port)/once'" ;;
run)
	shift
	trap down EXIT
	up
	eval "$("$0" env)"
	"$@"
	;;
*) usage "$0" 'up|down|kill|env|run COMMAND...' ;;
esac
