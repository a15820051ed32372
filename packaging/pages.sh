#!/usr/bin/env bash
# Writes the manual pages and the completions that packages and archives have to out/pages. VERSION is named in the pages.
#
#   packaging/pages.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."
pages=$PWD/out/pages once=$PWD/out/pages/once
flags=()
[ -z "${1:-}" ] || flags+=("-ldflags=-X main.release=v${1#v}")

rm -rf "$pages"
mkdir -p "$pages/completions"
go build "${flags[@]}" -o "$once" ./cmd/once
"$once" man "$pages/man1"
gzip -9n "$pages"/man1/*.1
"$once" completion bash >"$pages/completions/once.bash"
"$once" completion zsh >"$pages/completions/_once"
"$once" completion fish >"$pages/completions/once.fish"
"$once" completion powershell >"$pages/completions/once.ps1"
rm "$once"
