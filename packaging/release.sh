#!/usr/bin/env bash
# Makes a release with GoReleaser, by .goreleaser.yaml: `make release`, or `make release-snapshot` for all files without publishing them.
#
#   packaging/release.sh [OPTION...]           options go to goreleaser release
set -euo pipefail
cd "$(dirname "$0")/.."
source packaging/tools.sh
cyclonedx >/dev/null # before several binaries need it
"$(goreleaser)" check
exec "$(goreleaser)" release --clean "$@"
