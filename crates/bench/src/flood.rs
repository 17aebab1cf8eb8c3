//! A flood of keys against the cap: memory stays within it, and those who have used their limit are not forgotten.
//!
//! An attacker who invents keys wants one of two things: to make the process grow until it dies, or to push the keys of
//! the rationed out of the table, so that they start anew. Twenty million keys that ask once are sent past a
//! thousand that keep asking; nothing turns idle meanwhile. At the end, and at every touch, each of the
//! thousand must have exactly the count that was admitted, and the process must not have grown beyond the cap.

use std::error::Error;
use std::io;
use std::time::Duration;

use indicatif::ProgressBar;
use tollgate_core::{Cost, Limit, Rate, Tick, TokenBucket};
use tollgate_store::{Charge, Clock, Key, Ledger, LedgerSettings};

use crate::keys::key_text;
use crate::resident::Growth;
use crate::table::Table;
use crate::upkeep::while_tending;

/// Keys that keep asking.
const HOT_KEYS: u64 = 1_000;
/// What each of them has used before the flood.
const HOT_HEAD_START: u64 = 50;
/// Their keys' numbers begin here, apart from those of the flood.
const HOT_FIRST_ID: u64 = 1 << 40;
/// Of the limit of every key. A unit takes an hour to come back: none does during the flood.
const UNITS: u64 = 1_000;
const UNIT_PERIOD: Duration = Duration::from_hours(1);
/// New keys between two touches of a hot key.
const FLOOD_PER_TOUCH: u64 = 64;
/// How often memory is looked at.
const SAMPLES: u64 = 400;
/// How many of the samples are shown.
const SAMPLES_SHOWN: u64 = 10;
/// How far the process may grow beyond the cap, in percent of it.
const CAP_SLACK_PERCENT: u64 = 5;

/// How much to run.
#[derive(clap::Args)]
pub(crate) struct FloodArgs {
    /// A tenth of the keys against a tenth of the cap
    #[arg(long)]
    quick: bool,
}

/// A key that keeps asking, and what it was admitted.
struct HotKey {
    key: Key,
    admitted: u64,
    exact: bool,
}

struct Flood {
    ledger: Ledger,
    limit: Limit,
    clock: Clock,
    hot: Vec<HotKey>,
}

/// Floods a ledger; an error if it outgrew its cap or forgot a hot key.
pub(crate) fn run(args: &FloodArgs) -> Result<(), Box<dyn Error>> {
    let (keys, cap_bytes) = if args.quick { (2_000_000, 26 << 20) } else { (20_000_000, 256 << 20) };
    if args.quick {
        println!("QUICK RUN: a tenth of the keys, against a tenth of the cap.\n");
    }
    println!(
        "{keys} keys that ask once, against a cap of {} MiB, past {HOT_KEYS} that keep asking.\n",
        cap_bytes >> 20
    );
    let mut growth = Growth::start()?;
    let mut flood = Flood::new(cap_bytes)?;
    let shown = flood.run(keys, &mut growth)?;
    println!("{shown}\n");
    flood.look_again();
    report(&flood, &growth, cap_bytes as u64)
}

impl Flood {
    fn new(cap_bytes: usize) -> Result<Flood, Box<dyn Error>> {
        let ledger = Ledger::new(LedgerSettings { wholes_bytes: 0, ..LedgerSettings::with_cap(cap_bytes) })?;
        let rate = Rate::new(1, Tick::NANOSECOND.span(UNIT_PERIOD)?)?;
        let limit = TokenBucket::new(rate, UNITS)?.into();
        let hot_key = |id| HotKey { key: ledger.key(&key_text(HOT_FIRST_ID + id)), admitted: 0, exact: true };
        let hot = (0..HOT_KEYS).map(hot_key).collect();
        Ok(Flood { ledger, limit, clock: Clock::new(), hot })
    }

    /// Sends all keys while the ledger is tended; the table shows memory along the way.
    fn run(&mut self, keys: u64, growth: &mut Growth) -> io::Result<Table> {
        let mut shown = Table::new(["keys sent", "MiB grown", "MiB in the table", "evicted"]);
        let progress = ProgressBar::new(keys);
        let Flood { ledger, limit, clock, hot } = self;
        let send_all = || {
            for hot in hot.iter_mut() {
                hot.take(ledger, limit, clock, HOT_HEAD_START);
            }
            for sample in 1..=SAMPLES {
                let sent = keys * sample / SAMPLES;
                for id in keys * (sample - 1) / SAMPLES..sent {
                    ledger.decide(&Charge::take(ledger.key(&key_text(id)), limit, Cost::ONE), clock.now());
                    if id.is_multiple_of(FLOOD_PER_TOUCH) {
                        hot[(id / FLOOD_PER_TOUCH % HOT_KEYS) as usize].take(ledger, limit, clock, 1);
                    }
                }
                let grown_bytes = growth.sample()?;
                progress.set_position(sent);
                if sample.is_multiple_of(SAMPLES / SAMPLES_SHOWN) {
                    shown.add_row(sample_row(sent, grown_bytes, ledger));
                }
            }
            io::Result::Ok(())
        };
        while_tending(|| ledger.tend(clock.now()), send_all)?;
        progress.finish_and_clear();
        Ok(shown)
    }

    /// Asks for the count of every hot key once more.
    fn look_again(&mut self) {
        let now = self.clock.now();
        for hot in &mut self.hot {
            hot.exact &= self.ledger.used(hot.key, &self.limit, now) == hot.admitted;
        }
    }
}

impl HotKey {
    /// Takes units, and compares what is left with what was admitted before.
    fn take(&mut self, ledger: &Ledger, limit: &Limit, clock: &Clock, units: u64) {
        let decision = ledger.decide(&Charge::take(self.key, limit, Cost::new(units)), clock.now());
        self.admitted += if decision.is_allowed() { units } else { 0 };
        self.exact &= decision.remaining == UNITS - self.admitted;
    }
}

fn sample_row(keys_sent: u64, grown_bytes: u64, ledger: &Ledger) -> Vec<String> {
    let stats = ledger.stats();
    let mebibytes = |bytes: f64| format!("{:.1}", bytes / f64::from(1 << 20));
    vec![
        keys_sent.to_string(),
        mebibytes(grown_bytes as f64),
        mebibytes(stats.bytes as f64),
        stats.evicted.to_string(),
    ]
}

fn report(flood: &Flood, growth: &Growth, cap_bytes: u64) -> Result<(), Box<dyn Error>> {
    let allowed_bytes = cap_bytes + cap_bytes * CAP_SLACK_PERCENT / 100;
    let exact = flood.hot.iter().filter(|hot| hot.exact).count() as u64;
    let used_least = flood.hot.iter().map(|hot| hot.admitted).min().unwrap_or(0);
    println!(
        "Grew by at most {:.1} MiB; the cap and {CAP_SLACK_PERCENT} % are {:.1} MiB.",
        growth.most_bytes() as f64 / f64::from(1 << 20),
        allowed_bytes as f64 / f64::from(1 << 20)
    );
    println!("{exact} of {HOT_KEYS} hot keys kept their exact counts (at least {used_least} units each).");
    println!("{} keys of the flood made room.", flood.ledger.stats().evicted);
    if growth.most_bytes() > allowed_bytes {
        return Err("memory grew beyond the cap".into());
    }
    if exact < HOT_KEYS {
        return Err(format!("{} hot keys lost their counts", HOT_KEYS - exact).into());
    }
    Ok(())
}
