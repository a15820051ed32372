# The longer suites. `go run ./cmd/once dev` and `go test ./...` need none of this.
.DEFAULT_GOAL := help
.PHONY: help test lint fuzz e2e prove bench cover vuln ci all
.PHONY: localstack-up localstack-down localstack-test ministack-up ministack-down ministack-test shop-test

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## the tests of the product that need only Go
	.ci/run test

lint: ## gofmt, go vet, golangci-lint, actionlint, unreachable functions, tidy modules, words of comments, budgets, real time in tests
	.ci/run format tidy build lint words budget realtime workflows

fuzz: ## every fuzz target, guided by coverage; FUZZ_TIME=10m for ten minutes each
	FUZZ_TIME=$(or $(FUZZ_TIME),5s) .ci/run fuzz

e2e: ## the real binary under kill -9: real input, 100,000 messages of each admission, and 100,000 effects between linked systems (needs what all needs, and Chromium)
	E2E_MESSAGES=100000 E2E_KILLS=30 E2E_SIZES='-link-effects 100000 -link-kills 25 -link-functions 2000 -offline-functions 10000' .ci/run e2e

prove: ## no message lost, no effect doubled: every order of steps, known mistakes, removed conditions, small faults, histories, fuzzing, chaos (needs what all needs)
	go -C prove run .

bench: ## the numbers of docs/performance.md, as ratios
	go -C bench run .

cover: ## test coverage, by function, and as bin/cover.html; a statement of the engine that no test reaches is an error
	mkdir -p bin
	go test -coverpkg=./... -coverprofile=bin/cover.out ./...
	go tool cover -html=bin/cover.out -o bin/cover.html
	go tool cover -func=bin/cover.out
	@awk '$$1 ~ "/internal/(record|dedup(/(admission|outbox|relay))?)/[^/]*$$" { blocks++; count[$$1] += $$3 } \
		END { for (b in count) if (!count[b]) { print "no test reaches " b; bad = 1 }; exit bad || !blocks }' bin/cover.out

vuln: ## known vulnerabilities of what is used (needs the vulnerability database)
	.ci/run vuln

ci: ## the steps that the changes since the last whole run need
	.ci/run

all: ## every step but vuln, with guided fuzzing and long explorations; needed before a capability counts as finished
	.ci/run all

localstack-up: ## LocalStack without Docker, at http://127.0.0.1:4566
	localstack/localstack.sh up

localstack-down: ## end it
	localstack/localstack.sh down

localstack-test: ## from nothing to the system deployed to LocalStack behind a REST API, and the checks through it
	localstack/test.sh localstack

ministack-up: ## MiniStack, at http://127.0.0.1:4567
	localstack/ministack.sh up

ministack-down: ## end it
	localstack/ministack.sh down

ministack-test: ## the same on MiniStack behind an HTTP API
	localstack/test.sh ministack

shop-test: ## an app of somebody else's with two pipelines on MiniStack, used with the command line
	localstack/shop.sh ministack

.PHONY: lambdas archives included construct synth

lambdas: ## build the functions into dist/, for LAMBDA_ARCH=arm64 or amd64
	$(MAKE) -C infra lambdas

archives: ## build the functions for both architectures, and pack them into out/release/ for the construct
	$(MAKE) -C infra archives

included: ## write out/release/once.included.json, with which the construct for TypeScript, Python and Java deploys the configuration CONFIG=once.yaml (needs Node.js)
	$(MAKE) -C infra included CONFIG=$(abspath $(CONFIG))

construct: ## build the construct for CDK apps in TypeScript, Python and Java into out/construct/ (needs Node.js, npm, and Python 3.11 or later)
	$(MAKE) -C packaging/construct construct

synth: ## build the functions and write the production templates to infra/cdk.out (needs Node.js)
	$(MAKE) -C infra synth

.PHONY: release release-snapshot package

package: ## build the packages for Debian and Red Hat for this machine, install one into a folder, and try it
	packaging/test.sh

release-snapshot: ## all files of a release in out/dist, without publishing or signing them
	packaging/release.sh --snapshot --skip=sign

release: ## the files of the release of the tag that is checked out, signed by cosign, as a draft on GitHub
	packaging/release.sh

include localstack/Makefile
