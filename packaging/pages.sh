#!/usr/bin/env bash
# Writes the manual pages and the completions that packages and archives have to out/pages. VERSION is named in the pages.
#
#   packaging/pages.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."
pages=$PWD/out/pages once=$PWD/out/pages/once
package=$(go list ./cmd/once) version=${1:+v${1#v}}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH # the same commit makes the same pages

rm -rf "$pages"
mkdir -p "$pages/completions" "$pages/man1"
go build -o "$once" ./cmd/once
go test -count=1 -run TheManual -ldflags "-X $package.release=$version" ./cmd/once -man "$pages/man1" >/dev/null
chmod 644 "$pages"/man1/*.1
gzip -9n "$pages"/man1/*.1
"$once" completion bash >"$pages/completions/once.bash"
"$once" completion zsh >"$pages/completions/_once"
"$once" completion fish >"$pages/completions/once.fish"
"$once" completion powershell >"$pages/completions/once.ps1"
rm "$once"
