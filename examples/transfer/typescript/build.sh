#!/usr/bin/env bash
# Compiles the example into dist, with the package of this clone; needs Node.js 20.15 or later, and npm.
set -euo pipefail
cd "$(dirname "$0")"
../../../handlers/typescript/build.sh .
