# Everything a person or CI does with proctor. Each target installs what it needs into .tools and says so; a second time
# none of them needs the network.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
TOOLS := $(CURDIR)/.tools
export PATH := $(TOOLS)/bin:$(TOOLS)/go/bin:$(PATH)
export PROCTOR_TOOLS := $(TOOLS)
# Commands of ours that run as root must not leave their mark on the invoking user's Go settings.
export GOFLAGS := -modcacherw
export GOTOOLCHAIN := local

# Tests of rows of the table, by a part of their names. One in sixteen waits for its deadline and keeps no processor busy
# meanwhile, so there are more of them at a time; the others limit themselves (tests/tests/outcome_table/cpu_slots.rs).
ROWS := ::by_
ROWS_AT_A_TIME := 8

.PHONY: help demo test bench soak load projects fuzz lint deny tools build clean

help: ## show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

build: ## build all binaries for use: target/release/proctor, proctor-worker, proctor-mcp
	cargo build --release --locked --bins

demo: tools ## start a supervisor, run the sample workspaces over gRPC, show what broke, leave nothing behind
	cargo build --release --locked --bins
	target/release/demo

test: tools ## run every test
	cargo build --locked --workspace --bins --examples
	cargo test --locked --workspace --doc
	failed=0; \
	cargo test --locked --workspace --lib --bins --tests --no-fail-fast -- --skip $(ROWS) || failed=1; \
	cargo test --locked --workspace --test outcome_table -- --test-threads $(ROWS_AT_A_TIME) $(ROWS) || failed=1; \
	exit $$failed

bench: tools ## compare with rivals side by side; exits non-zero when a time is worse than twice its target or a promise is broken
	.ci/tools rivals
	cargo build --release --locked --bins
	cargo bench --locked -p proctor-tests

soak: tools ## 100,000 runs in a row through one supervisor; exits non-zero when something grows
	cargo build --release --locked --bins
	cargo bench --locked -p proctor-tests -- soak

load: ## 50 tenants with mixed runs and injected faults, LOAD_SECONDS=600; exits non-zero when a promise is broken
	cargo build --release --locked --bins
	PROCTOR_LOAD_SECONDS=$(or $(LOAD_SECONDS),600) cargo bench --locked -p proctor-tests -- load

projects: ## compare totals of popular projects' tests with their own runners', ONLY=Go; needs the registries, writes tests/PROJECTS.md
	cargo build --release --locked --bins
	python3 tests/projects/compare.py --only "$(ONLY)"

fuzz: ## feed every parser whatever comes up, SECONDS_EACH=600; exits non-zero when something does not hold
	.ci/tools cargo-fuzz
	.ci/fuzz $(or $(SECONDS_EACH),600)

lint: ## formatting and clippy, warnings as errors
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --manifest-path tests/fuzz/Cargo.toml --target-dir target --all-targets -- -D warnings

deny: ## licences, bans and sources, from the lock file alone
	.ci/tools cargo-deny
	cargo fetch --locked --quiet
	cargo deny --offline --locked check bans licenses sources

tools: ## install what tests need: toolchains, runners of every language, pinned projects, a guest's kernel
	.ci/tools go python grpc pytest pytest-playwright django pyprojects node-packages oldest-node-packages jsprojects managed chromium nextest crates cmake gomodules maven gradle rspec phpunit guest

clean: ## remove what was built and installed
	cargo clean
	rm -rf $(TOOLS)
