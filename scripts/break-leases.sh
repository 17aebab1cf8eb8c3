#!/usr/bin/env bash
# Puts bugs into the lease machines, one at a time and in a copy, and checks that the simulated fleet finds each.
# It changes nothing in the working tree. With an argument, it tries only the bugs whose names match it.
set -euo pipefail
cd "$(dirname "$0")/.."

schedules=200000
seconds_max=600
only=${1:-}
source=$PWD
copy=target/broken
export CARGO_TARGET_DIR=$source/target/broken-build
# Each bug changes one file of one crate: cargo compiles only what depends on it, in parts, and links without LTO.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false
export CARGO_INCREMENTAL=1
purse=crates/store/src/lease/purse.rs
purses=crates/store/src/lease/purses.rs
question=crates/store/src/authority.rs
requests=crates/testkit/src/simulation/requests.rs
authority=crates/testkit/src/simulation/authority.rs
bucket=crates/core/src/algorithm/token_bucket.rs
shared=crates/core/src/shared.rs
census=crates/store/src/lease/census.rs
missed=0

# Gives the copy a file as it is here. The copy's file gets a new time, by which cargo knows that it changed.
restore() {
  mkdir -p "$(dirname "$copy/$1")"
  cat "$1" > "$copy/$1"
}

# Makes the copy equal to the working tree, and changes no file that is equal already.
make_copy() {
  local file
  mkdir -p "$copy"
  while IFS= read -r -d '' file; do
    cmp -s "$file" "$copy/$file" || restore "$file"
  done < <(git ls-files -z --cached --others --exclude-standard -- \
    crates Cargo.toml Cargo.lock rust-toolchain.toml clippy.toml)
}

build() {
  (cd "$copy" && cargo build --quiet --release -p tollgate-testkit --bin simulate)
}

# Arguments: what the bug is, the file, and a substitution of perl that puts it there.
try() {
  local what=$1 file=$2 substitution=$3 found status=0
  [[ $what =~ $only ]] || return 0
  perl -0pi -e "$substitution" "$copy/$file"
  if cmp -s "$file" "$copy/$file"; then
    echo "$what: $file has no place for it any more" >&2
    exit 2
  fi
  build
  found=$(timeout "$seconds_max" "$CARGO_TARGET_DIR/release/simulate" --schedules "$schedules" 2>&1) || status=$?
  restore "$file"
  case $status in
    0) echo "NOT FOUND  $what"; missed=1 ;;
    124) echo "TOO SLOW   $what"; missed=1 ;;
    *) echo "found      $what: $(grep -oE 'seed: [0-9]+, events: [0-9]+, what: "[^"]{0,80}|a panic' <<< "$found" | head -1)" ;;
  esac
}

make_copy
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
try 'a return accepted after a reset' $authority 's/(\n {8}let effect = )self\.effect\(counted_at\);/$1Effect::Counts;/'
try 'an undo accepted after a reset' $authority 's/(\n {16}let effect = )self\.effect\(counted_at\);/$1Effect::Counts;/'
try 'a reset that leaves a node its leases' $purses 's/(pub fn give_up\(&self, key: u64, now: Time\) \{\n)/$1        if now > Time::default() {\n            return;\n        }\n/'
try 'what is given up can still be spent' $purse 's/std::mem::take\(&mut self\.blocks\)/self.blocks.clone()/'
try 'what is lent given back with its block' $purse 's/give_up\(block\.rest\(\)\)/give_up(LeaseRest { units: block.units + block.lent, ..block.rest() })/'
try 'what was lent of a block that was given up put into another' $purse 's/let block = self\.blocks\.iter_mut\(\)\.find\(\|block\| block\.number == number\);/let at = self.blocks.iter().position(|block| block.number == number).unwrap_or(0);\n            let block = self.blocks.get_mut(at);/'
try 'what was denied undone' $question 's/ *\(Act::Take\(_\), _\) if !grant\.decision\.is_allowed\(\) => None,\n//'
try 'a booking undone whose answer was late' $question 's/\(Act::Take\(cost\), None\)/(Act::Take(cost) | Act::Book(cost), None)/'
try 'an undo gives back what has come back by itself' $question 's/(units: cost\.units\(\), counted_at: grant\.at, undoes: )true/$1false/'
try 'a booking beyond the limit not counted' $bucket 's/if ask\.books\(\) \|\| is_trimmed/if is_trimmed/'
try 'what was lent to a denied request kept' $requests 's/self\.put_back\(node, part\.key, part\.spent\)/if let Some(spent) = &part.spent {\n            self.nodes[node].keep(part.key, spent);\n        }\n        Ok(())/'
try 'a grant to a denied request not undone' $requests 's/self\.undo\(node, question, question\.undo\(grant\), ticket\);/let _ = (question, ticket);/'
exit $missed
