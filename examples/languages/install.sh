#!/usr/bin/env bash
# Installs what the programs of a language need into .tools/languages, pinned, once.
#
#   examples/languages/install.sh python|typescript|java|shell
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$PWD/.tools/languages from=$PWD/examples/languages/$1
mkdir -p "$tools/$1"

case $1 in
python | shell)
	source localstack/python.sh
	environment "$tools/$1" "$from/requirements.txt" 3.13 3.12 3.11
	;;
typescript)
	cp "$from"/*.ts "$from"/*.json "$tools/$1"
	cd "$tools/$1"
	cmp -s package-lock.json made-from.json || {
		npm ci --prefer-offline --loglevel=error --no-audit --no-fund --no-update-notifier
		cp package-lock.json made-from.json
	}
	npx --no-install tsc
	;;
java)
	cmp -s "$from/pom.xml" "$tools/$1/made-from.xml" && exit
	mvn --quiet --batch-mode --file "$from/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$tools/$1"
	cp "$from/pom.xml" "$tools/$1/made-from.xml"
	;;
esac
