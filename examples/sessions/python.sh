#!/usr/bin/env bash
# Installs what consumer.py needs into .tools, pinned, once, and prints the variable that names its interpreter.
set -euo pipefail
cd "$(dirname "$0")/../.."
source localstack/python.sh
mkdir -p .tools/sessions
environment "$PWD/.tools/sessions/python" examples/sessions/requirements.txt 3.13 3.12 3.11 >&2
echo "export SESSIONS_PYTHON=$PWD/.tools/sessions/python/bin/python"
