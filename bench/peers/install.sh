#!/usr/bin/env bash
# Installs what bench compares with into .tools/peers, pinned, once; needs npm and Python 3.13. Prints the interpreter.
set -euo pipefail
cd "$(dirname "$0")/../.."
source localstack/python.sh
dir=$PWD/.tools/peers
mkdir -p "$dir/typescript"
environment "$dir/python" bench/peers/python/requirements.txt 3.13 3.12 3.11 >&2
cp bench/peers/typescript/main.mjs bench/peers/typescript/faults.mjs bench/peers/typescript/package.json "$dir/typescript/"
if ! cmp -s bench/peers/typescript/package-lock.json "$dir/typescript/package-lock.json"; then
	cp bench/peers/typescript/package-lock.json "$dir/typescript/"
	npm ci --prefix "$dir/typescript" --silent --no-audit --no-fund >&2 || { rm "$dir/typescript/package-lock.json"; exit 1; }
fi
echo "$dir/python/bin/python"
