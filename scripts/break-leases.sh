#!/usr/bin/env bash
# Puts bugs into the lease machines, one at a time and in a copy, and checks that the simulated fleet finds each of them.
# A quarter of an hour in all; nothing in the working tree is changed.
set -euo pipefail
cd "$(dirname "$0")/.."

schedules=200000
copy=target/broken
export CARGO_TARGET_DIR="$PWD/target/broken-build"
purse=crates/store/src/lease/purse.rs
authority=crates/testkit/src/simulation/authority.rs
bucket=crates/core/src/algorithm/token_bucket.rs
shared=crates/core/src/shared.rs
census=crates/store/src/lease/census.rs
missed=0

# What the bug is, the file, and what takes the place of what: a substitution of perl.
try() {
  local what=$1 file=$2 substitution=$3
  rm -rf "$copy"
  mkdir -p "$copy"
  git ls-files -z -- crates Cargo.toml Cargo.lock rust-toolchain.toml clippy.toml | tar -c --null -T - | tar -x -C "$copy"
  perl -0pi -e "$substitution" "$copy/$file"
  if cmp -s "$file" "$copy/$file"; then
    echo "$what: the place where it belongs is not there any more" >&2
    exit 2
  fi
  (cd "$copy" && cargo build --quiet --release -p tollgate-testkit --bin simulate)
  if found=$(timeout 300 "$CARGO_TARGET_DIR/release/simulate" --schedules "$schedules" 2>&1); then
    echo "NOT FOUND  $what"
    missed=1
  elif [ $? -eq 124 ]; then
    echo "TOO SLOW   $what"
    missed=1
  else
    echo "found      $what: ${found%%:*}"
  fi
}

try 'spent after its deadline' $purse 's/\.filter\(\|block\| block\.deadline > now\)//; s/block\.deadline > now && block\.units > 0/block.units > 0/g'
try 'returned twice' $purse 's/(            give_up\(block\.rest\(\)\);)/$1 give_up(LeaseRest { number: block.number ^ 1, ..block.rest() });/'
try 'what is on hand not counted into what a node may have' $purse 's/terms\.units_max\.saturating_sub\(held \+ self\.units_elsewhere\(now\)\)/terms.units_max/'
try 'what is lent not counted' $purse 's/self\.lent\(now\) \+ self\.returning/self.returning/'
try 'what is on its way back not counted' $purse 's/now < returning\.until;\n/false;\n/'
try 'an answer about one return taken for another' $purse 's/returning\.number != number\)/returning.number == number)/'
try 'a second grant taken' $purse 's/self\.asked\.take_if\(\|asked\| asked\.number == granted\.number\)/self.asked.filter(|asked| asked.number == granted.number)/'
try 'the deadline counted from the answer' $purse 's/let deadline = asked\.at\.plus\(/let deadline = now.plus(/'
try 'clocks believed to run equally fast' $purse 's/ - life\.ticks\(\) \/ DRIFT_PART//'
try 'what is left not given back before it dies' $purse 's/is_idle \|\| block\.ends_soon_at <= now/is_idle/'
try 'a late return accepted' $authority 's/now <= rest\.deadline && is_new/is_new/'
try 'a second return accepted' $authority 's/now <= rest\.deadline && is_new/now <= rest.deadline/'
try 'strict without the reserve' $bucket 's/self\.burst\.checked_sub\(units\)/self.burst.checked_sub(units.min(0))/'
try 'a return trims what a larger limit has counted' $bucket 's/let backlog_ticks = tat\.since\(refund\.now\)\.0;/let backlog_ticks = self.backlog_ticks(*tat, refund.now);/'
try 'what is here not used where it is not all' $purse 's/\(part > 0\)\.then/(part == u64::MAX).then/'
try 'what is lent for a part is put back twice' $purse 's/(        let mut room = |        let \(mut room, mut lost\))/        self.blocks.iter_mut().take(1).for_each(|block| block.units += spent.units().min(1));\n$1/'
try 'spent beyond its window' $shared 's/let Some\(end\) = self\.limit\.counts_until\(at\) else \{ return life_max \};/let Some(end) = self.limit.counts_until(at).filter(|_| false) else { return life_max };/'
try 'leased before others know' $census 's/JOINING: u32 = 15/JOINING: u32 = 1/'
try 'fewer nodes believed at once' $census 's/SMALLER_MIN: u32 = 11/SMALLER_MIN: u32 = 1/'
exit $missed
