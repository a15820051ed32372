# Starting and stopping one emulator as a process; sourced by the scripts beside it, which define ready.

usage() {
	echo "usage: $1 ${2:-up|down}" >&2
	exit 2
}

# need TOOL... ends the script, before it downloads anything, where it lacks tools.
need() {
	local tool missing=()
	for tool; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	[ ${#missing[@]} -eq 0 ] && return
	echo "$0 needs what is not on the path: ${missing[*]}" >&2
	exit 1
}

# packages NAME... installs packages of Debian. Tests that run at the same time may want some: the lock of apt-get does not wait.
packages() {
	(
		flock 9
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; } 9>&-
	) 9>/tmp/once-packages.lock >&2
}

# Without Java's second compiler, the emulator takes 36 s of processor time in place of 51 for the tests of the store on
# DynamoDB.
java=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)

# answers tells whether anything listens on a port.
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# running tells whether the process that a file names is alive.
running() { [ -f "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

# start DIR PORT COMMAND... starts a command in the background and waits until it is ready. What it starts is known by its process id and its port; one
# that runs already is left alone.
start() {
	local dir=$1 port=$2 pidfile=$1/pid.$2
	shift 2
	if running "$pidfile" && ready; then
		echo "up already on 127.0.0.1:$port, process $(cat "$pidfile")"
		return
	fi
	if answers "$port"; then
		echo "something else listens on port $port: set PORT" >&2
		exit 1
	fi
	setsid "$@" >"$dir/log.$port" 2>&1 </dev/null &
	echo $! >"$pidfile"
	for _ in $(seq 600); do
		if ready; then
			echo "up on 127.0.0.1:$port, process $(cat "$pidfile")"
			return
		fi
		running "$pidfile" || break
		sleep 0.1
	done
	echo "does not come up; the end of $dir/log.$port:" >&2
	tail -n 20 "$dir/log.$port" >&2
	stop "$dir" "$port"
	exit 1
}

# stop DIR PORT ends what start started there, by force if it takes longer than twenty seconds, and whatever that leaves behind.
stop() {
	local pidfile=$1/pid.$2 pid family
	[ -f "$pidfile" ] || return 0
	pid=$(cat "$pidfile")
	rm -f "$pidfile"
	family=$(descendants "$pid")
	kill "$pid" 2>/dev/null || return 0
	for _ in $(seq 200); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	kill -9 "$pid" $family 2>/dev/null || true
}

# descendants PID prints the processes that a process started, and those that they started.
descendants() {
	local child
	for child in $(pgrep -P "$1"); do
		echo "$child"
		descendants "$child"
	done
}

# endpoint PORT prints the variables that make an AWS SDK or tool use all services of an emulator.
endpoint() {
	echo "export AWS_ENDPOINT_URL=http://127.0.0.1:$1"
	echo "export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true"
}
