//! A million tenants with numbers of their own: time to load them, memory, time to change one more, and what decisions pay.
//!
//! The same rules and the same keys are asked three times: with no tenants, with tenants that have one of a thousand different terms, as
//! plans of a price list would be, and with tenants of which no two have the same. As a service would ask: the clock is read for every
//! decision. All take turns in one process, in an order that rotates, and the median of the rounds is reported.
//!
//! After that, a server is started on a database with as many: see [`server`].

mod server;

use std::error::Error;
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{env, str, thread};

use tollgate::policy::{Override, OverrideNumbers, Phase, Target};
use tollgate::{Clock, Descriptor, Engine, EngineSettings, Request, Source, TenantTerms};

use crate::contender::{self, Contender, Sharing};
use crate::keys::{Draw, KeyStream, Segment, key_text};
use crate::ledger::median;
use crate::resident::Growth;
use crate::table::Table;
use crate::timer::Stopwatch;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct TenantsArgs {
    /// How many tenants have an override
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    tenants: u64,
    /// How often each is asked
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Decisions of each turn
    #[arg(long, default_value_t = 500_000)]
    decisions: usize,
    /// How many tenants are changed one by one
    #[arg(long, default_value_t = 10_000)]
    changes: u64,
    /// How many are changed over HTTP, at a server with as many tenants in its database; 0 for no server
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    puts: u64,
}

/// The child process that loads tenants and prints by how much it grew.
#[derive(clap::Args)]
pub(crate) struct TenantsMemoryArgs {
    tenants: u64,
    different: u64,
}

/// Limits so large that nobody is denied.
const RULES: &str = "
domain: bench
tenant_key: tenant
descriptors:
- key: endpoint
  value: POST /v1/orders
  descriptors:
  - {key: tenant, rate_limit: {requests: 10000000, period: 3650d, burst: 10000000}}
- key: endpoint
  descriptors:
  - {key: tenant, rate_limit: {requests: 10000000, period: 3650d, burst: 10000000}}
";

/// How many different terms tenants have, where they are those of a price list.
const PLANS: u64 = 1_000;
/// How many requests arrive together.
const BATCH: usize = 16;

/// Terms of this number: other units for one endpoint.
fn terms(number: u64) -> TenantTerms {
    let entries = vec![("endpoint".into(), Some("POST /v1/orders".into()))];
    let numbers = OverrideNumbers::Per { units: 100_000_000 + number, period: None, burst: None };
    let target = Arc::new(Target::Descriptor { domain: None, entries });
    let overrides = vec![Override { target, limit: None, numbers }];
    TenantTerms { phases: vec![Phase { overrides, ..Phase::default() }] }
}

fn all(tenants: u64, different: u64) -> impl Iterator<Item = (String, TenantTerms)> {
    (0..tenants).map(move |tenant| (name(tenant), terms(tenant % different)))
}

fn name(tenant: u64) -> String {
    str::from_utf8(&key_text(tenant)).unwrap_or_default().to_owned()
}

/// An engine, and how it is asked.
struct Asking {
    engine: Arc<Engine>,
    clock: Clock,
    in_batches: bool,
}

fn engine(clock: &Clock) -> Result<Engine, Box<dyn Error>> {
    let engine = Engine::new(EngineSettings::default())?;
    engine.load(&[Source::new("bench", RULES)], clock.now())?;
    Ok(engine)
}

fn entries(key: &str) -> [(&str, &str); 2] {
    [("endpoint", "POST /v1/orders"), ("tenant", key)]
}

impl Asking {
    fn allows(&self, key: &str) -> bool {
        let entries = entries(key);
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("bench", &descriptors);
        black_box(self.engine.decide(&request, self.clock.now())).is_ok_and(|verdict| verdict.allowed())
    }

    fn allow_batch(&self, keys: &[&str]) -> u64 {
        let entries: Vec<_> = keys.iter().map(|key| entries(key)).collect();
        let descriptors: Vec<_> = entries.iter().map(|entries| [Descriptor::new(entries)]).collect();
        let requests: Vec<_> =
            descriptors.iter().map(|descriptors| Request::new("bench", descriptors)).collect();
        let mut allowed = 0;
        self.engine.decide_batch(&requests, self.clock.now(), |_, verdict| {
            allowed += u64::from(verdict.is_ok_and(tollgate::Verdict::allowed));
        });
        allowed
    }
}

impl Contender for Asking {
    fn take_each(&self, segment: Segment<'_>, _: Sharing) -> u64 {
        if !self.in_batches {
            return segment.texts().map(|key| u64::from(self.allows(key))).sum();
        }
        let keys: Vec<&str> = segment.texts().collect();
        keys.chunks(BATCH).map(|keys| self.allow_batch(keys)).sum()
    }

    fn tend(&self) {
        self.engine.tend(self.clock.now());
    }
}

/// Measures and prints; the last line is for scripts.
pub(crate) fn run(args: &TenantsArgs) -> Result<(), Box<dyn Error>> {
    let clock = Clock::new();
    let kinds =
        [("no tenants", None), ("1,000 different terms", Some(PLANS)), ("all different", Some(args.tenants))];
    let mut table = Table::new([
        "tenants",
        "load [s]",
        "bytes per tenant",
        "one more [us]",
        "ns per decision",
        "in batches",
    ]);
    let (mut engines, mut loads) = (Vec::new(), Vec::new());
    for (_, different) in kinds {
        let engine = Arc::new(engine(&clock)?);
        let stopwatch = Stopwatch::start();
        if let Some(different) = different {
            engine.set_tenants(all(args.tenants, different), clock.now())?;
        }
        loads.push(stopwatch.elapsed_secs());
        engines.push(engine);
    }
    let [alone, batches] = [false, true].map(|in_batches| decisions(args, &engines, in_batches));
    let (alone, batches) = (alone?, batches?);
    let mut bytes = Vec::new();
    for (at, (title, different)) in kinds.into_iter().enumerate() {
        let memory = different.map(|different| memory(args.tenants, different)).transpose()?.unwrap_or(0.0);
        let change = different.map(|different| change(args, &engines[at], different, &clock)).transpose()?;
        bytes.push(memory);
        table.add_row(vec![
            title.to_owned(),
            format!("{:.2}", loads[at]),
            format!("{memory:.0}"),
            change.map(|us| format!("{us:.2}")).unwrap_or_default(),
            format!("{:.1}", alone[at]),
            format!("{:.1}", batches[at]),
        ]);
    }
    println!("{} tenants, an override each, one thread\n\n{table}\n", args.tenants);
    drop(engines);
    let served = (args.puts > 0).then(|| server::measure(args.tenants, args.puts)).transpose()?;
    let mut told = String::new();
    if let Some(served) = &served {
        served.print(args.tenants);
        told = format!(
            " start_s={:.1} resident_mib={} put_p50_ms={:.2} put_p99_ms={:.2}",
            served.start_s,
            served.resident_bytes >> 20,
            served.put_ms(0.5),
            served.put_ms(0.99),
        );
    }
    println!(
        "ratios: overrides_vs_none={:.2} bytes_per_override={:.0} different_vs_none={:.2} bytes_per_different_override={:.0} batches_vs_none={:.2} different_batches_vs_none={:.2}{told}",
        alone[1] / alone[0],
        bytes[1],
        alone[2] / alone[0],
        bytes[2],
        batches[1] / batches[0],
        batches[2] / batches[0],
    );
    Ok(())
}

/// Nanoseconds per decision of each engine.
fn decisions(
    args: &TenantsArgs,
    engines: &[Arc<Engine>],
    in_batches: bool,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let asking =
        |engine: &Arc<Engine>| Asking { engine: Arc::clone(engine), clock: Clock::new(), in_batches };
    let contenders: Vec<Asking> = engines.iter().map(asking).collect();
    for contender in &contenders {
        contender::fill(contender, args.tenants);
        contender.tend();
    }
    let mut samples = vec![Vec::new(); contenders.len()];
    for round in 0..args.rounds as usize {
        let stream = KeyStream::draw(Draw::Uniform, args.tenants, args.decisions, round as u64);
        for turn in 0..contenders.len() {
            let at = (turn + round) % contenders.len();
            let stopwatch = Stopwatch::start();
            let admitted = contenders[at].take_each(stream.whole(), Sharing::Alone);
            samples[at].push(stopwatch.elapsed_ns() as f64 / args.decisions as f64);
            if admitted != args.decisions as u64 {
                return Err(format!("{admitted} of {} were admitted", args.decisions).into());
            }
        }
    }
    Ok(samples.into_iter().map(median).collect())
}

/// Microseconds to change one more tenant, the others being there.
fn change(args: &TenantsArgs, engine: &Engine, different: u64, clock: &Clock) -> Result<f64, Box<dyn Error>> {
    let mut samples = Vec::new();
    for turn in 0..args.changes {
        // Every other tenant is new, and so are its terms.
        let tenant = if turn % 2 == 0 { turn } else { args.tenants + turn };
        let (name, terms) = (name(tenant), terms(different + turn));
        let now = clock.now();
        let stopwatch = Stopwatch::start();
        engine.set_tenant(&name, Some(terms), now)?;
        samples.push(stopwatch.elapsed_ns() as f64 / 1_000.0);
    }
    Ok(median(samples))
}

/// Bytes per tenant that a process of its own has grown by.
fn memory(tenants: u64, different: u64) -> Result<f64, Box<dyn Error>> {
    let child = Command::new(env::current_exe()?)
        .args(["tenants-memory", &tenants.to_string(), &different.to_string()])
        .output()?;
    let told = String::from_utf8(child.stdout)?;
    let bytes: f64 = told.trim().parse().map_err(|_| format!("no figure: {told:?}"))?;
    Ok(bytes / tenants as f64)
}

/// Loads tenants, and prints by how many bytes the process has grown.
pub(crate) fn run_memory(args: &TenantsMemoryArgs) -> Result<(), Box<dyn Error>> {
    let clock = Clock::new();
    let engine = engine(&clock)?;
    // What the first tenant needs is not what each needs.
    engine.set_tenant("somebody", Some(terms(0)), clock.now())?;
    let mut growth = Growth::start()?;
    engine.set_tenants(all(args.tenants, args.different), clock.now())?;
    // What was needed on the way is given back by the next allocations, a while later.
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(10));
        black_box(vec![0_u8; 1 << 16]);
    }
    println!("{}", growth.sample()?);
    Ok(())
}
