#!/usr/bin/env bash
# The CloudFormation template of a release, deployed to MiniStack by the AWS command line: no CDK, as docs/without-go.md describes it.
#
#   localstack/template.sh
#
# The script makes the template as `make template` does, and the archives for this machine. It uploads the archives to a bucket, deploys the template, sends
# messages twice, updates the configuration of the stack, and deletes the stack. template/adapt.py makes the two changes without which MiniStack refuses the
# template or takes messages for those of another sender; everything else is deployed as released.
#
# PORT chooses another port than MiniStack's, KEEP=1 leaves it up. Needs Go, Node.js, Python 3.11 or later, curl and sha256sum.
set -euo pipefail
[ $# -eq 0 ] || { echo "usage: $0" >&2; exit 2; }
cd "$(dirname "$0")/.."
source localstack/process.sh
made=.tools/template${PORT:+.$PORT} arch=${LAMBDA_ARCH:-$(go env GOARCH)} stack=Once prefix=once/v1.2.0/
work=$PWD/$made aws=$PWD/.tools/languages/shell/bin/aws python=$PWD/.tools/languages/shell/bin/python
case $arch in amd64) architecture=x86_64 ;; *) architecture=$arch ;; esac
need go node curl sha256sum

# step runs a function and prints how long it took.
step() {
	local title=$1 began=$SECONDS
	shift
	"$@"
	echo "== $title: $((SECONDS - began)) s"
}

fail() { echo "$*" >&2; return 1; }

# quiet runs a command and shows its output only if it fails.
quiet() {
	local status=0
	"$@" >"$work/log" 2>&1 || status=$?
	[ "$status" -eq 0 ] || cat "$work/log" >&2
	return "$status"
}

# build makes the template and the archives in $work/release, from the functions in dist/, and the command line.
build() {
	rm -rf "$work/release" "$work/functions"
	mkdir -p "$work/functions"
	quiet make -C infra template "RELEASED=$made" CONFIG=
	quiet make -C infra lambdas "LAMBDA_ARCH=$arch" DIST=dist
	ln -s "$PWD/dist" "$work/functions/$arch"
	go run ./packaging/archives "$work/functions" "$work/release" "$arch"
	go build -o "$work/once" ./cmd/once
	"$python" localstack/template/adapt.py "$work/release/once.template.json" "$work/adapted.json"
}

upload() {
	(cd "$work/release" && sha256sum --quiet --check functions.sha256)
	quiet "$aws" s3 mb s3://my-code
	quiet "$aws" s3 cp "$work/release" "s3://my-code/$prefix" --recursive --exclude '*' --include 'once-*.zip'
}

# deploy PATH deploys the stack with a webhook at this path of the receiver.
deploy() {
	local config
	config=$(printf 'streams: {orders: {destinations: [shop]}}\ndestinations: {shop: {webhook: "http://127.0.0.1:%s%s"}}\n' "$(cat "$work/port")" "$1")
	quiet "$aws" cloudformation deploy --stack-name "$stack" --template-file "$work/adapted.json" --s3-bucket my-code --capabilities CAPABILITY_IAM \
		--parameter-overrides CodeBucket=my-code "CodePrefix=$prefix" "Architecture=$architecture" "Config=$config" || {
		"$aws" cloudformation describe-stack-events --stack-name "$stack" --query 'StackEvents[?ResourceStatusReason].[LogicalResourceId,ResourceStatusReason]' --output text >&2
		return 1
	}
}

# complete compares the names of the deployed resources with those of the template.
complete() {
	"$python" -c 'import json, sys; print("\n".join(json.load(open(sys.argv[1]))["Resources"]))' "$work/adapted.json" | sort >"$work/wanted"
	"$aws" cloudformation list-stack-resources --stack-name "$stack" --query 'StackResourceSummaries[].[LogicalResourceId]' --output text | sort >"$work/resources"
	diff "$work/wanted" "$work/resources" || fail 'the stack does not have the resources of its template'
}

# url prints the address of the API that MiniStack serves without a name lookup.
url() {
	"$aws" cloudformation describe-stacks --stack-name "$stack" --query "Stacks[0].Outputs[?OutputKey=='ApiUrl'].OutputValue" --output text |
		sed -E "s#^https://([^./]+)\.[^/]+/\$#${AWS_ENDPOINT_URL%/}/_aws/execute-api/\1#"
}

# send KEY BODY sends a message and waits until it is done. What it prints must have the given text.
send() { # key, body, text
	local answer
	answer=$("$work/once" send orders "$2" --key "$1" --group customer-7 --stack "$stack" --url "$(url)" --wait 60s --json)
	grep -q '"status": "done"' <<<"$answer" && grep -q "$3" <<<"$answer" || fail "message $1: want it done, with $3: $answer"
}

# requests LINE... waits until the receiver has as many requests, and compares them.
requests() {
	local _
	for _ in $(seq 600); do
		[ "$(wc -l <"$work/requests")" -lt $# ] || break
		sleep 0.1
	done
	diff <(printf '%s\n' "$@") "$work/requests" || fail 'the receiver has other requests (< wanted, > received)'
}

# deliver sends two messages of one group, the first of them twice. Effects of a group are in order, so a second effect of the first message would be there
# before that of the second message.
deliver() {
	send first 1 '"stream": "orders"'
	send first 1 '"replayed": true'
	send second 2 '"stream": "orders"'
	requests '/hook 1' '/hook 2'
}

# update changes a parameter, the configuration. Messages of before stay known.
update() {
	deploy /moved
	send first 1 '"replayed": true'
	send third 3 '"stream": "orders"'
	requests '/hook 1' '/hook 2' '/moved 3'
}

# delete deletes the stack. Its tables stay, its functions and its API do not.
delete() {
	"$aws" cloudformation delete-stack --stack-name "$stack"
	local tables functions apis _
	for _ in $(seq 60); do # the waiter of the command line looks every thirty seconds only
		"$aws" cloudformation describe-stacks --stack-name "$stack" >/dev/null 2>"$work/log" || break
		sleep 0.5
	done
	grep -q 'does not exist' "$work/log" || fail "the stack is not deleted: $(cat "$work/log")"
	tables=$("$aws" dynamodb list-tables --query 'length(TableNames)' --output text)
	functions=$("$aws" lambda list-functions --query 'length(Functions)' --output text)
	apis=$("$aws" apigatewayv2 get-apis --query 'length(Items)' --output text)
	[ "$tables $functions $apis" = '2 0 0' ] || fail "after the deletion: $tables tables, $functions functions, $apis APIs, want 2, 0, 0"
}

finish() {
	[ "$1" -eq 0 ] || localstack/ministack.sh logs >&2 || true
	[ -z "${receiver:-}" ] || kill "$receiver" 2>/dev/null || true
	[ -n "${KEEP:-}" ] || localstack/ministack.sh down
}

mkdir -p "$work"
step install examples/languages/install.sh shell
step build build
trap 'finish $?' EXIT
step start localstack/ministack.sh up
eval "$(localstack/ministack.sh env)"
rm -f "$work/port"
: >"$work/requests"
"$python" localstack/template/receiver.py "$work/requests" "$work/port" &
receiver=$!
for _ in $(seq 300); do [ -f "$work/port" ] && break; sleep 0.1; done
step upload upload
step deploy deploy /hook
complete
step messages deliver
step update update
step delete delete
