#!/usr/bin/env bash
# The package for handlers in TypeScript as its users have it: compiled, tested, packed, and installed into a program that is compiled and run with it.
#
#   handlers/typescript/test.sh          needs Go, Node.js 20.15 or later, and npm
#
# What it installs is pinned.
set -euo pipefail
cd "$(dirname "$0")"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

./build.sh ../../examples/transfer/typescript
(cd ../.. && go build -o "$temporary/once" ./cmd/once)
export ONCE=$temporary/once
npm test --silent
node --test ../../examples/transfer/typescript/dist/*.test.js

cp ../../LICENSE .
npm pack --silent --pack-destination "$temporary" >"$temporary/name"
package=$temporary/$(cat "$temporary/name")
if tar -tzf "$package" | grep -vE '^package/(package\.json|README\.md|LICENSE|dist/[a-z]+\.(js|d\.ts))$'; then
	echo 'these files do not belong into the package'
	exit 1
fi
mkdir "$temporary/user"
cp test/user/* "$temporary/user"
cd "$temporary/user"
echo '{"type": "module"}' >package.json
npm install --silent --offline --no-audit --no-fund "$package"
for tool in typescript @typescript @types undici-types .bin; do ln -s "$OLDPWD/node_modules/$tool" "node_modules/$tool"; done
node check.mjs
answers() { # program state body answer
	local answer
	answer=$(echo '{"stream":"orders","group":"ann","state":'"$2"',"messages":[{"id":"order-1","body":'"$3"'}]}' | node "$1")
	[ "$answer" = "$4" ] || { echo "$1 answers $answer, not $4"; exit 1; }
}
answers node.js 7 null '{"state":8,"messages":[{"id":"order-1"}]}'
answers readme-0.js null '"{}"' '{"messages":[{"id":"order-1","reject":"not an order"}]}'
node quickstart.mjs
echo "$(basename "$package") installs, and handlers compile and run with it"
