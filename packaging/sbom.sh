#!/usr/bin/env bash
# Writes the modules that a binary was built from, as CycloneDX in JSON.
#
#   packaging/sbom.sh BINARY VERSION DOCUMENT
set -euo pipefail
binary=$(realpath "$1") document=$(realpath -m "$3")
cd "$(dirname "$0")/.."
source packaging/tools.sh
"$(cyclonedx)" bin -json -std -noserial -version "$2" -output "$document" "$binary"
