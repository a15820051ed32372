#!/usr/bin/env bash
# Makes the packages for Debian and for Red Hat of a binary for Linux, in out/packages. packaging/pages.sh comes first.
#
#   packaging/packages.sh amd64|arm64 VERSION BINARY
#   packaging/packages.sh                             only builds the tool that it needs
set -euo pipefail
cd "$(dirname "$0")/.."
source packaging/tools.sh
nfpm=$(nfpm)
[ $# -gt 0 ] || exit 0

export ARCH=$1 VERSION=${2#v} FILES=out/package.$1
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH # the same commit makes the same packages

rm -rf "$FILES"
mkdir -p "$FILES" out/packages
cp "$3" "$FILES/once"
# The unit without its head, which says how to install it by hand.
sed -e '1,/^$/d' -e 's#/usr/local/bin/once#/usr/bin/once#' packaging/once.service >"$FILES/once.service"
for kind in deb rpm; do
	"$nfpm" package --config packaging/nfpm.yaml --packager "$kind" --target "out/packages/once_${VERSION}_linux_$ARCH.$kind" >/dev/null
done
rm -r "$FILES"
