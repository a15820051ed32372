#!/usr/bin/env bash
# LocalStack 4.14.0, the last release that needs no account, without Docker; compose.yaml is the same for machines with Docker.
#
#   localstack/localstack.sh up|down     PORT defaults to 4566; needs Python 3.13, Java 17 and npm
#   localstack/localstack.sh env         prints the variables that make tools and tests use it: eval "$(localstack/localstack.sh env)"
#   localstack/localstack.sh logs        prints the end of its log and of those of its functions
#
# host/requirements.txt pins the packages, host/launch.py runs functions as processes. Everything lives in .tools, in memory, and is gone with down. Each
# function writes its output to .tools/localstack/state.PORT/lambda-logs until then. Functions are built for Linux, so elsewhere it takes compose.yaml.
set -euo pipefail
cd "$(dirname "$0")/.."
source localstack/process.sh
source localstack/python.sh
port=${PORT:-4566} dir=$PWD/.tools/localstack

ready() { curl -fs -o /dev/null "http://127.0.0.1:$port/_localstack/health"; }

# clear removes what an emulator that is down has left; one that was killed leaves DynamoDB Local running.
clear() {
	pkill -9 -f "^java .*=$dir/state\\.$port/" || true
	rm -rf "$dir/state.$port"
}

up() {
	need curl java npm
	mkdir -p "$dir"
	environment "$dir/python" localstack/host/requirements.txt 3.13
	local dynamodb
	dynamodb=$(localstack/dynamodb-local.sh install)
	answers "$port" || clear
	# The emulator must not take itself for another one; without byte code each start takes ten seconds longer.
	unset "${!AWS_@}" PYTHONDONTWRITEBYTECODE
	start "$dir" "$port" env "GATEWAY_LISTEN=127.0.0.1:$port" "LOCALSTACK_HOST=localhost:$port" "FILESYSTEM_ROOT=$dir/state.$port" \
		"DYNAMODB_LOCAL_HOME=$dynamodb" "$dir/python/bin/python" localstack/host/launch.py
}

case ${1:-} in
up) up ;;
down)
	stop "$dir" "$port"
	clear
	;;
env) endpoint "$port" ;;
logs) tail -n 20 "$dir/log.$port" "$dir/state.$port"/lambda-logs/*/*.log ;;
*) usage "$0" "up|down|env|logs" ;;
esac
