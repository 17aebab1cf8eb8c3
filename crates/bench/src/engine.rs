//! The engine beside the bare ledger and governor: what rules, descriptors and all-or-nothing add to a decision.
//!
//! As a service would ask: the clock is read for every decision, by us as by governor. All take turns in one process, in an order
//! that rotates, and the median of the rounds is reported.

use std::error::Error;
use std::hint::black_box;

use tollgate::{Clock, Descriptor, Engine, EngineSettings, Request, Source};

use crate::contender::{self, Contender, Kind, Sharing};
use crate::keys::{Draw, KeyStream, Segment};
use crate::table::Table;
use crate::timer::Stopwatch;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct EngineArgs {
    /// How often everybody runs each workload
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Decisions of each turn
    #[arg(long, default_value_t = 500_000)]
    decisions: usize,
}

/// Limits so large that nobody is denied.
const RULES: &str = "
domain: bench
descriptors:
- key: path
  value: /search
  descriptors:
  - {key: user, rate_limit: {requests: 10000000, period: 3650d, burst: 10000000}}
- {key: user, rate_limit: {requests: 10000000, period: 3650d, burst: 10000000}}
policies:
  search: {requests: 10000000, period: 3650d, burst: 10000000}
";

/// A way to ask the engine.
struct Asking {
    engine: Engine,
    clock: Clock,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Policy,
    OneDescriptor,
    TwoDescriptors,
}

impl Asking {
    fn new(how: How) -> Result<Asking, Box<dyn Error>> {
        let (engine, clock) = (Engine::new(EngineSettings::default())?, Clock::new());
        engine.load(&[Source::new("bench", RULES)], clock.now())?;
        Ok(Asking { engine, clock, how })
    }

    fn allows(&self, key: &str) -> bool {
        let (nested, flat) = ([("path", "/search"), ("user", key)], [("user", key)]);
        let descriptors = [Descriptor::new(&nested), Descriptor::new(&flat)];
        let request = match self.how {
            How::Policy => Request::policy("search", key.as_bytes()),
            How::OneDescriptor => Request::new("bench", &descriptors[..1]),
            How::TwoDescriptors => Request::new("bench", &descriptors),
        };
        black_box(self.engine.decide(&request, self.clock.now())).is_ok_and(|step| step.allowed())
    }
}

impl Contender for Asking {
    fn take_each(&self, segment: Segment<'_>, _: Sharing) -> u64 {
        segment.texts().map(|key| u64::from(self.allows(key))).sum()
    }

    fn tend(&self) {
        self.engine.tend(self.clock.now());
    }
}

/// Measures and prints; the last line is for scripts.
pub(crate) fn run(args: &EngineArgs) -> Result<(), Box<dyn Error>> {
    let mut table = Table::new(["ns per decision, one thread"]);
    let mut figures: Vec<Vec<f64>> = Vec::new();
    let mut names = Vec::new();
    for keys in [1_u64, 1_000_000] {
        let entrants = entrants(usize::try_from(keys)?)?;
        for (_, contender) in &entrants {
            contender::fill(&**contender, keys);
            contender.tend();
        }
        let mut samples = vec![Vec::new(); entrants.len()];
        for round in 0..args.rounds as usize {
            let stream = KeyStream::draw(Draw::Uniform, keys, args.decisions, round as u64);
            for turn in 0..entrants.len() {
                let at = (turn + round) % entrants.len();
                let (name, contender) = &entrants[at];
                let stopwatch = Stopwatch::start();
                let admitted = contender.take_each(stream.whole(), Sharing::Alone);
                samples[at].push(stopwatch.elapsed_ns() as f64 / args.decisions as f64);
                if admitted != args.decisions as u64 {
                    return Err(format!("{name} admitted {admitted} of {}", args.decisions).into());
                }
            }
        }
        table.add_column(if keys == 1 { "one key" } else { "1 M keys" });
        names = entrants.into_iter().map(|(name, _)| name).collect();
        figures.push(samples.into_iter().map(crate::ledger::median).collect());
    }
    for (at, name) in names.iter().enumerate() {
        let cells = figures.iter().map(|column| format!("{:.1}", column[at]));
        table.add_row(std::iter::once((*name).to_owned()).chain(cells).collect());
    }
    println!("{table}\n");
    let ratio = |column: usize, at: usize| figures[column][at] / figures[column][0];
    println!(
        "ratios: policy_hot={:.2} policy_1m={:.2} descriptor_1m={:.2} two_descriptors_1m={:.2}",
        ratio(0, 2),
        ratio(1, 2),
        ratio(1, 3),
        ratio(1, 4)
    );
    Ok(())
}

type Named = (&'static str, std::sync::Arc<dyn Contender>);

fn entrants(keys: usize) -> Result<Vec<Named>, Box<dyn Error>> {
    Ok(vec![
        ("governor, string keys", contender::build(Kind::GovernorText, keys)?),
        ("tollgate, the bare ledger", contender::build(Kind::BucketClock, keys)?),
        ("tollgate, a named policy", std::sync::Arc::new(Asking::new(How::Policy)?)),
        ("tollgate, one descriptor of two entries", std::sync::Arc::new(Asking::new(How::OneDescriptor)?)),
        ("tollgate, two descriptors", std::sync::Arc::new(Asking::new(How::TwoDescriptors)?)),
    ])
}
