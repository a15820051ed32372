#!/usr/bin/env bash
# Deploys the CDK app of infra/ to an emulator with the stock CDK command line.
#
#   eval "$(localstack/localstack.sh env)"
#   localstack/deploy.sh [OPTION...]           options go to cdk synth: -c api=rest
#   localstack/deploy.sh url                   prints the address of the deployed API on the emulator
#   localstack/deploy.sh destroy               deletes what was deployed
#
# The endpoint is AWS_ENDPOINT_URL, and nothing is deployed without it: this is not the way to AWS. APP names another app than infra, or the folder of one
# that is synthesized already. OUT is the folder for the templates in cdk.out and the outputs, .tools/deploy by default. UNSUPPORTED is a list of e2e/drift:
# resources of the types in it are not deployed. Functions are built for this machine, or for LAMBDA_ARCH. Needs Go, Node.js and npm.
set -euo pipefail
cd "$(dirname "$0")/.."
source localstack/process.sh
root=$PWD app=$(realpath "${APP:-infra}") out=${OUT:-$PWD/.tools/deploy}
cli=$root/.tools/cdk cdk=$root/.tools/cdk/node_modules/.bin/cdk
export CDK_HOME=$cli/home CDK_DISABLE_CLI_TELEMETRY=true JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1 NODE_NO_WARNINGS=1

: "${AWS_ENDPOINT_URL:?is not set: see localstack.sh env}"

# install puts the pinned command line into .tools, once.
install() {
	cmp -s localstack/cdk/package-lock.json "$cli/package-lock.json" && [ -x "$cdk" ] && return
	mkdir -p "$cli"
	echo "installing the CDK command line into $cli, this once" >&2
	cp localstack/cdk/package.json localstack/cdk/package-lock.json "$cli/"
	npm ci --prefix "$cli" --loglevel=error --no-audit --no-fund --no-update-notifier
}

# run is cdk, heard only when it fails.
run() {
	local began=$SECONDS
	if ! "$cdk" --no-notices "$@" >"$out/$1.log" 2>&1; then
		cat "$out/$1.log" >&2
		return 1
	fi
	echo "cdk $1: $((SECONDS - began)) s" >&2
}

# url turns the API's address on AWS, in the outputs, into the one that every emulator here serves without a name to look up.
url() {
	local address
	address=$(grep -oE 'https?://[^./"]+\.execute-api\.[^"]+' "$out/outputs.json" | head -n 1)
	[ -n "$address" ] || { echo "no output holds the address of an API" >&2; return 1; }
	sed -E "s#^https?://([^./]+)\.[^/]+#${AWS_ENDPOINT_URL%/}/_aws/execute-api/\1#; s#/\$##" <<<"$address"
}

# synthesize writes the templates to cdk.out, and those to deploy to deployed if some types can't be made.
synthesize() {
	if [ -f "$app/manifest.json" ]; then
		cp -r "$app" "$out/cdk.out"
	else
		make -C infra lambdas "LAMBDA_ARCH=${LAMBDA_ARCH:-$(go env GOARCH)}" >&2
		(cd "$app" && run synth --quiet --output "$out/cdk.out" -c emulator=true "$@")
	fi
	[ -z "${UNSUPPORTED:-}" ] || go -C e2e run ./drift -app "$out/cdk.out" -expected "$UNSUPPORTED" -cut "$out/deployed"
}

# deployed is the folder of the templates that are deployed.
deployed() { if [ -n "${UNSUPPORTED:-}" ]; then echo "$out/deployed"; else echo "$out/cdk.out"; fi; }

deploy() {
	need go make node npm
	install
	rm -rf "$out"
	mkdir -p "$out"
	synthesize "$@"
	cd "$out" # outside of the app's folder, which would be synthesized once more
	run bootstrap --app "$(deployed)" "aws://000000000000/${AWS_REGION:-us-east-1}"
	run deploy --app "$(deployed)" --all --require-approval never --outputs-file outputs.json
	cat outputs.json
}

case ${1:-} in
url) url ;;
destroy) run destroy --app "$(deployed)" --all --force ;;
*) deploy "$@" ;;
esac
