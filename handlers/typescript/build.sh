#!/usr/bin/env bash
# Compiles the package into dist, and then programs that import it, if their sources have changed; needs Node.js 20.15 or later, and npm.
#
#   handlers/typescript/build.sh                     the package
#   handlers/typescript/build.sh examples/transfer/typescript   and the program in a folder
#
# What it installs is pinned. Several of these may run at the same time.
set -euo pipefail
package=$(cd "$(dirname "$0")" && pwd)

# compile runs tsc in a folder, unless dist has been made of these sources.
compile() { # folder
	local sources
	sources=$(cd "$1" && cat "$package/package-lock.json" tsconfig.json $(find . -name '*.ts' -not -path './node_modules/*' -not -path './dist/*' -not -path './test/*' | sort) | cksum)
	[ "$(cat "$1/node_modules/made-of" 2>/dev/null)" = "$sources" ] && [ -d "$1/dist" ] && return
	rm -rf "$1/dist"
	(cd "$1" && "$package/node_modules/.bin/tsc")
	echo "$sources" >"$1/node_modules/made-of"
}

exec 9>>"$package/.lock"
if command -v flock >/dev/null; then flock 9; fi
cmp -s "$package/package-lock.json" "$package/node_modules/made-from.json" || {
	(cd "$package" && npm ci --prefer-offline --loglevel=error --no-audit --no-fund --no-update-notifier)
	cp "$package/package-lock.json" "$package/node_modules/made-from.json"
}
compile "$package"
for program; do
	mkdir -p "$program/node_modules/@effectively-once"
	ln -sfn "$package" "$program/node_modules/@effectively-once/handler"
	compile "$program"
done
