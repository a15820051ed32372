#!/usr/bin/env bash
# ElasticMQ without Docker: SQS with the order, blocking, deduplication and dead letters of first-in-first-out queues.
#
#   localstack/elasticmq.sh up|down            PORT defaults to 9324; needs Java 17 and Maven
#
# Maven resolves the pinned version from elasticmq/pom.xml. Everything lives in .tools, in memory, and is gone with down.
set -euo pipefail
cd "$(dirname "$0")/.."
source localstack/process.sh
port=${PORT:-9324} dir=$PWD/.tools/elasticmq pom=localstack/elasticmq/pom.xml

install() {
	need curl java
	cmp -s "$pom" "$dir/made-from.xml" && return
	need mvn
	rm -rf "$dir/lib"
	mkdir -p "$dir"
	echo "installing $pom into $dir, this once" >&2
	mvn -q -B -Dstyle.color=never -f "$pom" dependency:copy-dependencies "-DoutputDirectory=$dir/lib" -DincludeScope=runtime
	cp "$pom" "$dir/made-from.xml"
}

ready() { curl -fs -o /dev/null "http://127.0.0.1:$port/?Action=ListQueues"; }

case ${1:-} in
up)
	install
	start "$dir" "$port" java "${java[@]}" -Xmx512m -Dconfig.file=localstack/elasticmq/elasticmq.conf "-Delasticmq.port=$port" \
		-cp "$dir/lib/*" org.elasticmq.server.Main
	;;
down) stop "$dir" "$port" ;;
*) usage "$0" ;;
esac
