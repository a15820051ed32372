#!/usr/bin/env bash
# The construct as its users have it: packed, and installed into an app in TypeScript and one in Python, which are outside of the package. The apps are
# synthesized, and checked: packaging/construct/test/*.test.mjs.
#
#   packaging/construct/test.sh          needs Go, Node.js, npm, and Python 3.11 or later
#
# What it installs is pinned, and in .tools/construct. The assemblies of the apps are in .tools/construct/shop.
set -euo pipefail
cd "$(dirname "$0")/../.."
source localstack/python.sh
root=$PWD tools=$PWD/.tools/construct test=$PWD/packaging/construct/test
export SHOP=$tools/shop JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1 NODE_NO_WARNINGS=1

# step runs a part in a shell of its own, because errexit does not work within a command whose failure is looked at. It shows the output only if the part
# fails, and tells how long it took.
step() {
	local began=$SECONDS log
	log=$(mktemp)
	packaging/construct/test.sh --step "$1" >"$log" 2>&1 || { cat "$log"; rm -f "$log"; return 1; }
	rm -f "$log"
	echo "== $1: $((SECONDS - began)) s"
}

package() { make construct; }

typescript() {
	cd "$tools/typescript"
	cmp -s "$test/typescript/package-lock.json" made-from.json || {
		cp "$test"/typescript/package*.json .
		npm ci --prefer-offline --loglevel=error --no-audit --no-fund --no-update-notifier
		cp package-lock.json made-from.json
	}
	npm install --no-save --no-package-lock --loglevel=error --no-audit --no-fund --no-update-notifier "$root"/out/construct/js/*.tgz
	cp "$test"/typescript/* "$test"/*.test.mjs "$test/sources.yaml" .
	npx --no-install tsc
	CDK_OUTDIR=$SHOP/typescript node shop.js
}

python() {
	environment "$tools/python" "$test/requirements.txt" 3.13 3.12 3.11
	"$tools/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$root"/out/construct/python/*.whl
	CDK_OUTDIR=$SHOP/python "$tools/python/bin/python" "$test/python/shop.py"
}

# templates makes two templates with infra: one for the settings of the stack Tuned, one for a configuration with sources.
templates() {
	(cd infra && CDK_CONTEXT_JSON=$(cat "$test/settings.json") CDK_OUTDIR=$SHOP/go go run ./app)
	make included "CONFIG=$test/sources.yaml"
	cp out/release/once.included.json "$SHOP/sources.json"
}

if [ "${1:-}" = --step ]; then
	"$2"
	exit
fi
rm -rf "$SHOP"
mkdir -p "$tools/typescript" "$SHOP"
for part in package typescript python templates; do step "$part"; done
cd "$tools/typescript"
node --test --test-reporter=spec
