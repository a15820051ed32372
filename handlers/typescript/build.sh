#!/usr/bin/env bash
# Compiles the package into dist; needs Node.js 20.15 or later, and npm. What it installs is pinned.
set -euo pipefail
cd "$(dirname "$0")"
cmp -s package-lock.json node_modules/made-from.json || {
	npm ci --prefer-offline --loglevel=error --no-audit --no-fund --no-update-notifier
	cp package-lock.json node_modules/made-from.json
}
npm run --silent build
