#!/usr/bin/env bash
# From nothing to the system deployed on an emulator, and the checks that go through its front door.
#
#   localstack/test.sh localstack|ministack [COMMAND...]
#
# It starts the emulator, deploys infra/, compares what was deployed with the templates, runs the command with the variables of the emulator and ONCE_API_URL,
# and takes everything down again. Without a command it runs the end-to-end checks of the contract, on whose configuration, e2e/contract.yaml with a random port for the receiver, the
# deployed system is; it is open to every caller, because emulators check no signatures. KEEP=1 leaves the emulator up, PORT chooses another port than its own.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:-} out=$PWD/.tools/deploy/${1:-}${PORT:+.$PORT}
export ONCE_CONTRACT=$out.yaml
case $name in
localstack) options=(-c api=rest) ;;
ministack) options=(-c api=http) ;;
*)
	echo "usage: $0 localstack|ministack [COMMAND...]" >&2
	exit 2
	;;
esac
secret=whsec_$(printf 'the receiver and the sender know' | base64)
shift
[ $# -gt 0 ] || set -- go -C e2e test -count=1 -v -run '^TestContract' .

finish() {
	[ "$1" -eq 0 ] || "localstack/$name.sh" logs >&2 || true
	[ -n "${KEEP:-}" ] || "localstack/$name.sh" down
}

# step runs a command and tells how long it took.
step() {
	local title=$1 began=$SECONDS
	shift
	"$@"
	echo "== $title: $((SECONDS - began)) s"
}

mkdir -p "${out%/*}"
sed "s#127.0.0.1:9917#127.0.0.1:$((10000 + RANDOM % 20000))#" e2e/contract.yaml >"$ONCE_CONTRACT"
trap 'finish $?' EXIT
step start "localstack/$name.sh" up
eval "$("localstack/$name.sh" env)"
export OUT=$out
step deploy localstack/deploy.sh "${options[@]}" -c auth=none -c "config=$ONCE_CONTRACT" -c "environment=E2E_WEBHOOK_SECRET=$secret"
step drift go -C e2e run ./drift -app "$out/cdk.out" -expected "../localstack/drift/$name.txt"
ONCE_API_URL=$(localstack/deploy.sh url)
export ONCE_API_URL ONCE_OUTPUTS=$out/outputs.json
step checks "$@"
