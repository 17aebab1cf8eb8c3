#!/usr/bin/env bash
# Everything that must hold before a change is good: format, lints, documents, tests, and the models of the ledger.
# Installs what it needs and does not find. Benchmarks are commands of their own.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

# Uses what the machine has, else an own copy under target/, so that the second run finds it.
nextest() {
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest "$@"
    else
        if [ ! -x target/tools/bin/cargo-nextest ]; then
            step "installing cargo-nextest"
            cargo install --locked --root target/tools cargo-nextest
        fi
        target/tools/bin/cargo-nextest nextest "$@"
    fi
}

step "tools"
scripts/test-tools.sh

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings

step "documents"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --exclude tollgate-bench
scripts/check-links.sh

step "tests"
nextest run --workspace --locked
cargo test --doc --locked

step "models: every interleaving of a few threads on the ledger's words"
# Apart from the other build: `--cfg loom` changes what is compiled.
CARGO_TARGET_DIR=target/loom RUSTFLAGS="--cfg loom" \
    cargo test --release --locked -p tollgate-store --lib models

step "all good"
