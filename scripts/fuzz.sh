#!/usr/bin/env bash
# Feeds made-up input to every reader of input: scripts/fuzz.sh [TARGET|all] [RUNS]
# What breaks something is kept in fuzz/artifacts. docs/fuzzing.md says more.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=(resp rls frames json http_auth quick yaml)
target=${1:-all}
runs=${2:-10000000}

# Long enough for everything but the bounds on sizes, which have tests of their own; short enough to be fast.
declare -A bytes_max=([resp]=1024 [rls]=1024 [frames]=1024 [json]=1024 [http_auth]=1024 [quick]=1024 [yaml]=1024)
memory_mb_max=1024
seconds_max=10 # for one input

step() { printf '\n== %s\n' "$*"; }

usage() {
    echo "usage: scripts/fuzz.sh [TARGET] [RUNS], where TARGET is all (the default) or one of: ${targets[*]}" >&2
    exit 2
}

[[ $runs =~ ^[1-9][0-9]*$ ]] || usage
if [ "$target" != all ]; then
    [ -n "${bytes_max[$target]:-}" ] || usage
    targets=("$target")
fi

if ! rustc +nightly --version >/dev/null 2>&1; then
    echo "fuzzing needs a nightly compiler, for its instrumentation: rustup toolchain install nightly" >&2
    exit 1
fi
export RUSTUP_TOOLCHAIN=nightly

# Uses what the machine has, else an own copy under target/, so that the second run finds it.
if cargo fuzz --version >/dev/null 2>&1; then
    fuzz=(cargo fuzz)
else
    if [ ! -x target/tools/bin/cargo-fuzz ]; then
        step "installing cargo-fuzz"
        cargo install --locked --root target/tools cargo-fuzz
    fi
    fuzz=(target/tools/bin/cargo-fuzz fuzz)
fi

# No sanitizer: it would look for what only unsafe code can do, and there is none on these paths but the ledger's, which has
# models of its own. Assertions and overflow checks are on. Comparisons are not traced: that would take most of the time, and the
# dictionaries have the words that it finds.
build=(--sanitizer none --no-trace-compares)

for target in "${targets[@]}"; do
    step "$target: $runs runs"
    found=fuzz/target/corpus/$target # What is found is kept apart from what is committed.
    mkdir -p "$found"
    "${fuzz[@]}" run "${build[@]}" "$target" "$found" "fuzz/corpus/$target" -- \
        -runs="$runs" -max_len="${bytes_max[$target]}" -dict="fuzz/$target.dict" \
        -rss_limit_mb="$memory_mb_max" -timeout="$seconds_max" -print_final_stats=1 -verbosity=0 -reload=0
done

step "all good"
