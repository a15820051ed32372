#!/usr/bin/env bash
# The client for TypeScript as its users have it: compiled, tested with the real server, packed, and installed into a program that is compiled with it.
#
#   clients/typescript/test.sh          needs Go, Node.js 20.15 or later, and npm
#
# What it installs is pinned.
set -euo pipefail
cd "$(dirname "$0")"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

cmp -s package-lock.json node_modules/made-from.json || {
	npm ci --loglevel=error --no-audit --no-fund --no-update-notifier
	cp package-lock.json node_modules/made-from.json
}
npm run --silent build
(cd ../.. && go build -o "$temporary/once" ./cmd/once)
ONCE=$temporary/once npm test --silent

cp ../../LICENSE .
npm pack --silent --pack-destination "$temporary" >"$temporary/name"
package=$temporary/$(cat "$temporary/name")
if tar -tzf "$package" | grep -vE '^package/(package\.json|README\.md|LICENSE|dist/[a-z]+\.(js|d\.ts))$'; then
	echo 'these files do not belong into the package'
	exit 1
fi
mkdir -p "$temporary/user/node_modules/@effectively-once/client"
tar -xzf "$package" -C "$temporary/user/node_modules/@effectively-once/client" --strip-components 1
for tool in typescript @typescript @types undici-types .bin; do ln -s "$PWD/node_modules/$tool" "$temporary/user/node_modules/$tool"; done
cp test/types/* "$temporary/user"
echo '{"type": "module"}' >"$temporary/user/package.json"
cd "$temporary/user"
node check.mjs
node --input-type=module -e 'import("@effectively-once/client/file").then(({ FileStorage }) => new FileStorage("outbox").open({ stream: "s", source: "", group: "" }))'
echo "$(basename "$package") installs, and programs compile with it"
