#!/usr/bin/env bash
# An app of somebody else's, deployed to an emulator and used with the command line: two pipelines in one stack, with network, key, domain and web ACL.
#
#   localstack/shop.sh ministack [APP]
#
# APP is the folder of a CDK app, with a cdk.json, or what cdk synth made of one. By default it is infra/testdata/shop, as a module of its own. The app has the
# stack Shop with the pipelines Orders and Billing of infra/testdata/shop. It gets the context emulator=true and architecture=amd64 or arm64, and in FUNCTIONS
# the folder of the functions.
#
# The script starts the emulator, deploys the app without the types that localstack/drift/NAME-shop.txt lists as unsupported, compares what was deployed with
# the templates, and runs the checks of e2e/shop. Then it takes everything down again. KEEP=1 leaves the emulator up, PORT chooses another port than its own.
# LocalStack can't be used: its open release has no HTTP API.
set -euo pipefail
usage="usage: $0 ministack [APP]"
[ "${1:-}" = ministack ] || { echo "$usage" >&2; exit 2; }
given=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
root=$PWD name=$1 work=$PWD/.tools/shop${PORT:+.$PORT}
export OUT=$work/out FUNCTIONS=$root/dist UNSUPPORTED=$root/localstack/drift/$name-shop.txt
arch=${LAMBDA_ARCH:-$(go env GOARCH)}

mkdir -p "$work"

# outside makes a module of its own of infra/testdata/shop. Only its replace lines name this repository, because nothing is published.
outside() {
	local module=github.com/effectively-once/once
	rm -rf "$work/app"
	mkdir "$work/app"
	cp infra/testdata/shop/main.go infra/go.sum "$work/app"
	{
		echo 'module shop.example/shop'
		grep -vE '^(module|replace) ' infra/go.mod
		printf 'require %s/infra v0.0.0\nreplace %s => %s\nreplace %s/infra => %s/infra\n' "$module" "$module" "$root" "$module" "$root"
	} >"$work/app/go.mod"
	echo '{"app": "GOFLAGS= GOWORK=off go run -mod=mod -ldflags=\"-s -w\" .", "versionReporting": false}' >"$work/app/cdk.json"
}

# step runs a command and tells how long it took.
step() {
	local title=$1 began=$SECONDS
	shift
	"$@"
	echo "== $title: $((SECONDS - began)) s"
}

finish() {
	[ "$1" -eq 0 ] || "localstack/$name.sh" logs >&2 || true
	[ -n "${KEEP:-}" ] || "localstack/$name.sh" down
}

trap 'finish $?' EXIT
step start "localstack/$name.sh" up
eval "$("localstack/$name.sh" env)"
if [ -n "$given" ]; then export APP=$given; else outside && export APP=$work/app; fi
step deploy localstack/deploy.sh -c "architecture=$arch" >"$work/deployed.log"
step drift go -C e2e run ./drift -app "$OUT/cdk.out" -expected "$UNSUPPORTED"
export ONCE_SHOP_OUTPUTS=$OUT/outputs.json ONCE_SHOP_UNSUPPORTED=$UNSUPPORTED
step checks .ci/run --step shop
