# Starting and stopping one emulator as a process; sourced by the scripts beside it, which define ready.

usage() {
	echo "usage: $1 up|down" >&2
	exit 2
}

# answers tells whether anything listens on a port.
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# start DIR PORT COMMAND... starts a command in the background and waits until it is ready. What it starts is known by its process id and its port; one
# that runs already is left alone.
start() {
	local dir=$1 port=$2 pidfile=$1/pid.$2
	shift 2
	if [ -f "$pidfile" ] && kill -0 "$(cat "$pidfile")" 2>/dev/null && ready; then
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
		kill -0 "$(cat "$pidfile")" 2>/dev/null || break
		sleep 0.1
	done
	echo "does not come up; the end of $dir/log.$port:" >&2
	tail -n 20 "$dir/log.$port" >&2
	stop "$dir" "$port"
	exit 1
}

# stop DIR PORT ends what start started there, by force if it takes longer than ten seconds.
stop() {
	local pidfile=$1/pid.$2 pid
	[ -f "$pidfile" ] || return 0
	pid=$(cat "$pidfile")
	rm -f "$pidfile"
	kill "$pid" 2>/dev/null || return 0
	for _ in $(seq 100); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -9 "$pid" 2>/dev/null || true
}
