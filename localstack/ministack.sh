#!/usr/bin/env bash
# MiniStack 1.5.33: a small emulator that has the HTTP API, which LocalStack's open release lacks, and is up in half a second.
#
#   localstack/ministack.sh up|down      PORT defaults to 4567; needs Python 3.11 or later
#   localstack/ministack.sh env          prints the variables that make tools and tests use it: eval "$(localstack/ministack.sh env)"
#   localstack/ministack.sh logs        prints the end of its log
#
# ministack/requirements.txt pins the packages. Everything lives in .tools, in memory, and is gone with down.
set -euo pipefail
cd "$(dirname "$0")/.."
source localstack/process.sh
source localstack/python.sh
port=${PORT:-4567} dir=$PWD/.tools/ministack

ready() { curl -fs -o /dev/null "http://127.0.0.1:$port/_ministack/health"; }

up() {
	need curl
	mkdir -p "$dir"
	environment "$dir/python" localstack/ministack/requirements.txt 3.13 3.12 3.11
	answers "$port" || rm -rf "$dir/state.$port"
	mkdir -p "$dir/state.$port"
	# Its functions inherit its environment: what the shell says of other endpoints must not reach them.
	unset "${!AWS_@}" PYTHONDONTWRITEBYTECODE LAMBDA_STRICT
	start "$dir" "$port" env BIND_HOST=127.0.0.1 "GATEWAY_PORT=$port" MINISTACK_HOST=127.0.0.1 "AWS_ENDPOINT_URL=http://127.0.0.1:$port" \
		IOT_MTLS_ENABLED=0 SFTP_ENABLED=0 PERSIST_STATE=0 S3_PERSIST=0 LAMBDA_EXECUTOR=local "TMPDIR=$dir/state.$port" "$dir/python/bin/ministack"
}

case ${1:-} in
up) up ;;
down)
	stop "$dir" "$port"
	rm -rf "$dir/state.$port"
	;;
env) endpoint "$port" ;;
logs) tail -n 20 "$dir/log.$port" ;;
*) usage "$0" "up|down|env|logs" ;;
esac
