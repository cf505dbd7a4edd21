# All development and CI tasks. Each target installs missing tools into .tools and prints what it installs; later runs do not need
# the network.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
TOOLS := $(CURDIR)/.tools
export PATH := $(TOOLS)/bin:$(TOOLS)/go/bin:$(PATH)
export PROCTOR_TOOLS := $(TOOLS)
# Commands that run as root must not change the invoking user's Go settings.
export GOFLAGS := -modcacherw
export GOTOOLCHAIN := local

# Tools that tests need.
TEST_TOOLS := go python grpc pytest pytest-playwright pytest-lines django pyprojects node-packages oldest-node-packages jsprojects mcp-clients \
  report-readers checkers managed chromium nextest crates cmake gomodules goclient maven gradle rspec phpunit guest packaging
# Its installation needs root, as the one suite that uses it does.
ifeq ($(shell id -u),0)
TEST_TOOLS += package-guest
endif

.PHONY: auditable root help demo test bench soak load capacity projects mutants fuzz lint deny deb rpm image sbom tools build clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

build: ## build the release binaries: target/release/proctor, proctor-worker, proctor-mcp
	cargo build --release --locked --bins

demo: ## start a supervisor, run the sample workspaces over gRPC, show the failures, remove everything
	.ci/tools go
	cargo build --release --locked --bins
	target/release/demo

# The end-to-end suites and the programs' unit tests first (.config/nextest.toml), then those of the libraries, which take a
# minute. All steps take the whole workspace: a part of it has other features, and everything would be compiled again.
test: ## run every test
	.ci/tools $(TEST_TOOLS) & tools=$$!; \
	cargo build --locked --workspace --bins --examples --tests && wait $$tools
	failed=0; \
	cargo test --locked --workspace --doc || failed=1; \
	cargo nextest run --locked --workspace -E 'kind(test) or kind(bin)' --test-threads $$((6 * $$(nproc))) || failed=1; \
	cargo test --locked --workspace --lib --no-fail-fast || failed=1; \
	exit $$failed

bench: tools ## compare with other sandboxes; exits non-zero if a time exceeds twice its target or a guarantee is broken
	.ci/tools rivals
	cargo build --release --locked --bins --example history_load
	cargo bench --locked --workspace --bench compare

soak: tools ## 100,000 consecutive runs through one supervisor; exits non-zero if its resource use grows
	cargo build --release --locked --bins
	cargo bench --locked --workspace --bench compare -- soak

load: ## 50 tenants with mixed runs and injected faults, LOAD_SECONDS=600; exits non-zero if a guarantee is broken
	cargo build --release --locked --bins
	PROCTOR_LOAD_SECONDS=$(or $(LOAD_SECONDS),600) cargo bench --locked --workspace --bench compare -- load

capacity: ## measure this host and write the [host] table that suits it to FILE=target/capacity.toml
	cargo build --release --locked --bins
	PROCTOR_CAPACITY_FILE=$(or $(FILE),$(CURDIR)/target/capacity.toml) cargo bench --locked --workspace --bench compare -- capacity

projects: ## compare test totals of popular projects with their own runners, ONLY=Go; needs registries, writes tests/PROJECTS.md
	cargo build --release --locked --bins
	python3 tests/projects/compare.py --only "$(ONLY)"

mutants: ## change lines and files of popular projects, and compare the tests that fail with those selected as affected, ONLY=Go EACH=25; needs registries, writes tests/MUTANTS.md
	cargo build --release --locked --bins
	python3 tests/projects/mutants.py --only "$(ONLY)" --each $(or $(EACH),25)

fuzz: ## fuzz every parser, SECONDS_EACH=600; exits non-zero if a property is violated
	.ci/tools cargo-fuzz
	.ci/fuzz $(or $(SECONDS_EACH),600)

lint: ## formatting and clippy, warnings as errors
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --manifest-path tests/fuzz/Cargo.toml --target-dir target --all-targets -- -D warnings

deny: ## licences, bans and sources, from the lock file only
	.ci/tools cargo-deny
	cargo fetch --locked --quiet
	cargo deny --offline --locked check bans licenses sources

# The programs of the packages list their dependencies, and the commit that they are built from.
auditable:
	.ci/tools cargo-auditable packaging
	PROCTOR_REVISION=$$(git describe --always --dirty --abbrev=12 2>/dev/null || true) cargo auditable build --release --locked --bins

deb: auditable ## target/packages/*.deb: Debian package with the service, manual, completions, licences and SBOM
	.ci/package deb

rpm: auditable ## target/packages/*.rpm: the same for RPM-based systems
	.ci/tools packaging-rpm
	.ci/package deb rpm

image: root auditable ## target/packages/image: OCI image of Debian with the deb, started once; needs root
	.ci/tools image
	.ci/package deb image

root:
	@[ "$$(id -u)" = 0 ] || { echo "this target needs root, to install Debian's packages into a directory" >&2; exit 1; }

sbom: auditable ## target/packages/*.cdx.json: what the programs contain, as CycloneDX
	.ci/package sbom

tools: ## install test dependencies: toolchains, test runners, pinned projects, a guest kernel
	.ci/tools $(TEST_TOOLS)

clean: ## remove build output and installed tools
	cargo clean
	rm -rf $(TOOLS)
