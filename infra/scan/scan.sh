#!/usr/bin/env bash
# Scans the templates of the app with cdk-nag (AwsSolutions) and cfn-lint. A finding that the table in docs/security.md does not list is an error,
# and so is a row of the table that nothing finds.
#
#   infra/scan/scan.sh      needs Go, Node.js with npm, and Python 3.11 or later; no account
#
# package.json and requirements.txt pin the tools, which are installed into .tools/scan. The functions are placeholders, because templates have only
# the hash of their contents.
set -euo pipefail
cd "$(dirname "$0")/.."
source ../localstack/python.sh
tools=$PWD/../.tools/scan page=../docs/security.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

environment "$tools/python" scan/requirements.txt 3.13 3.12 3.11
if ! cmp -s scan/package-lock.json "$tools/nag/package-lock.json"; then
	mkdir -p "$tools/nag"
	cp scan/package.json scan/package-lock.json "$tools/nag"
	npm ci --prefix "$tools/nag" --loglevel=error --no-audit --no-fund --no-update-notifier || { rm "$tools/nag/package-lock.json"; exit 1; }
fi
cp scan/nag.mjs "$tools/nag"

for f in ingest process publish; do
	mkdir -p "$work/dist/$f"
	echo placeholder > "$work/dist/$f/bootstrap"
done
key=arn:aws:kms:eu-central-1:123456789012:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f
functions="\"assets\": \"$work/dist\""
declare -A contexts=(
	[http]=$functions
	[rest]=$functions', "api": "rest", "auth": "key", "apiKeys": "shop"'
	[network]=$functions', "encryptionKey": "'$key'", "vpc": "vpc-0a1b2c3d", "subnets": "subnet-0a1b2c3d,subnet-1a2b3c4d", "tracing": "true", "corsOrigins": "https://shop.example"'
)
for name in "${!contexts[@]}"; do
	export CDK_CONTEXT_JSON="{${contexts[$name]}}"
	JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1 CDK_OUTDIR="$work/$name" go run ./app > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
	template=$work/$name/Once.template.json
	node "$tools/nag/nag.mjs" "$template" "$work/$name.nag" 2> "$work/log" > "$work/$name.found" || { cat "$work/log"; exit 1; }
	# The return code of cfn-lint has a bit for each kind of finding; a higher one is a failure of its own.
	"$tools/python/bin/cfn-lint" --format parseable "$template" > "$work/lint" || [ $? -lt 32 ] || { cat "$work/lint"; exit 1; }
	awk -F: 'NF >= 7 { print $6 " " $7 }' "$work/lint" >> "$work/$name.found"
	echo "$name: $(wc -l < "$work/$name.found") findings"
done

cat "$work"/*.found | sort -u > "$work/found"
cut -d ' ' -f 1 "$work/found" | sort -u > "$work/rules"
sed -n '/^## Scanners/,/^## /s/^| `\([^`]*\)` |.*/\1/p' "$page" | sort -u > "$work/listed"
status=0
if new=$(comm -23 "$work/rules" "$work/listed") && [ -n "$new" ]; then
	echo "not in the table of docs/security.md:"
	while read -r rule; do grep -F -- "$rule " "$work/found"; done <<< "$new"
	status=1
fi
if gone=$(comm -13 "$work/rules" "$work/listed") && [ -n "$gone" ]; then
	printf 'in the table of docs/security.md, and found nowhere:\n%s\n' "$gone"
	status=1
fi
[ "$status" -ne 0 ] || echo "every finding has its reason in docs/security.md"
exit "$status"
