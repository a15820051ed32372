#!/usr/bin/env bash
# Pins the modules of this repository that users require or run to a release of the root module. Between releases their go.mod replaces it by the folder
# beside them, and Go ignores the replace lines of a required module.
#
#   git tag v1.2.0 && git push origin v1.2.0
#   packaging/modules.sh v1.2.0
#   git push origin examples/v1.2.0 infra/v1.2.0 watermill/v1.2.0
#
# It commits on no branch: the tags of the modules are one commit beside that of the root.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?usage: packaging/modules.sh VERSION} once=github.com/effectively-once/once modules=(examples infra watermill)

if [ -n "$(git status --porcelain --untracked-files=no)" ] || [ "$(git rev-parse HEAD)" != "$(git rev-parse "$version^{commit}")" ]; then
	echo "check out $version first, without changes" >&2
	exit 1
fi
git switch --quiet --detach
export GOFLAGS='' GOWORK=off GOPRIVATE=$once # from the repository: a proxy may not have the tag yet
for m in "${modules[@]}"; do
	go -C "$m" mod edit -dropreplace="$once" -require="$once@$version"
	go -C "$m" mod tidy
	go -C "$m" build ./...
done
git commit --quiet --all --message "modules: require $version"
for m in "${modules[@]}"; do
	git tag "$m/$version"
done
git switch --quiet -
