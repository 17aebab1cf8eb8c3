//! What one call of a script costs Redis, and what one key takes of its memory: from these, a fleet's shards are counted.

use std::error::Error;
use std::hint::black_box;

use indicatif::ProgressBar;
use tollgate_core::{OldestCounts, SharedLimit, Tick, Time, Verb};
use tollgate_testkit::Spec;
use tollgate_testkit::real::redis::{Counter, RedisClient, Reply, ScriptCaller};

use super::node::Node;

/// The calls that are on their way at once, as flights of several threads would be.
const PIPELINE: usize = 8;
/// The keys that take turns: none is asked often.
const KEYS: usize = 10_000;
const UNITS: u64 = 1_000;
/// Long enough that no key expires before it was looked at.
const PERIOD_US: u64 = 3_600_000_000;
/// The algorithms, and the filling of Redis for each.
pub(super) const STEPS: u64 = 8 * 2;
/// How many units of a key are used where it is well used.
const USED: usize = 100;

/// How much a call carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) keys: usize,
    pub(super) asks: usize,
}

/// What is measured of each algorithm.
pub(super) const SHAPES: [Shape; 5] = [
    Shape { keys: 1, asks: 1 },
    Shape { keys: 8, asks: 1 },
    Shape { keys: 64, asks: 1 },
    Shape { keys: 1, asks: 8 },
    Shape { keys: 1, asks: 64 },
];

/// What one algorithm costs.
pub(super) struct Cost {
    pub(super) algorithm: &'static str,
    /// Microseconds of a call, by shape.
    pub(super) call_us: [f64; SHAPES.len()],
    /// What Redis says that a key takes which was asked for once, and what one takes that is well used.
    pub(super) key_bytes: [i64; 2],
    /// By how much its memory grew for each key that was asked for once.
    pub(super) grown_bytes: f64,
}

/// Measures all algorithms.
pub(super) fn measure(
    node: &Node,
    is_quick: bool,
    progress: &ProgressBar,
) -> Result<Vec<Cost>, Box<dyn Error>> {
    let asks = if is_quick { 4_000 } else { 40_000 };
    let mut costs = Vec::new();
    for spec in specs() {
        let limit = SharedLimit::in_ticks(spec.try_limit()?, Tick::MICROSECOND)?;
        let mut meter =
            Meter { node, caller: ScriptCaller::new(node.client()), limit: &limit, keys: names(), next: 0 };
        progress.set_message(format!("cost of {}", limit.limit().algorithm()));
        let mut call_us = [0.0; SHAPES.len()];
        for (us, shape) in call_us.iter_mut().zip(SHAPES) {
            node.flush();
            *us = meter.call_us(shape, asks)?;
        }
        progress.inc(1);
        node.flush();
        let (key_bytes, grown_bytes) = meter.memory()?;
        progress.inc(1);
        costs.push(Cost { algorithm: limit.limit().algorithm(), call_us, key_bytes, grown_bytes });
    }
    node.flush();
    Ok(costs)
}

/// A thousand units an hour, of every algorithm.
fn specs() -> [Spec; 8] {
    let (units, period_ticks) = (UNITS, PERIOD_US);
    [
        Spec::TokenBucket { units, period_ticks, burst: UNITS },
        Spec::LeakyBucket { units, period_ticks, size: UNITS },
        Spec::LeakyQueue { units, period_ticks, max_wait_ticks: PERIOD_US },
        Spec::FixedWindow { units, period_ticks },
        Spec::SlidingWindow { units, period_ticks },
        Spec::SubWindows { units, period_ticks, count: 10, oldest: OldestCounts::Whole },
        Spec::SlidingLog { units, period_ticks },
        Spec::Concurrency { units, hold_ticks_max: PERIOD_US },
    ]
}

/// Keys as long as the driver's.
fn names() -> Vec<Vec<u8>> {
    (0..KEYS)
        .map(|number| format!("tollgate:1:{{{:03x}}}:{number:022}", number % 4096).into_bytes())
        .collect()
}

struct Meter<'a> {
    node: &'a Node,
    caller: ScriptCaller,
    limit: &'a SharedLimit,
    keys: Vec<Vec<u8>>,
    next: usize,
}

impl Meter<'_> {
    /// The processor time of Redis for one call, on average.
    fn call_us(&mut self, shape: Shape, asks: usize) -> Result<f64, Box<dyn Error>> {
        let calls = asks / (shape.keys * shape.asks).clamp(1, 8);
        self.call(shape, calls / 10)?;
        let prepared: Vec<Vec<Vec<u8>>> = (0..calls).map(|_| self.arguments(shape)).collect();
        let before = self.node.cpu()?;
        for batch in prepared.chunks(PIPELINE) {
            exchange(self.caller.client(), batch)?;
        }
        Ok(self.node.cpu()?.since(before).total_ns / 1e3 / calls as f64)
    }

    fn call(&mut self, shape: Shape, calls: usize) -> Result<(), Box<dyn Error>> {
        for _ in 0..calls {
            let arguments = self.arguments(shape);
            exchange(self.caller.client(), &[arguments])?;
        }
        Ok(())
    }

    /// The next call: of the keys whose turn it is.
    fn arguments(&mut self, shape: Shape) -> Vec<Vec<u8>> {
        let asks = vec![(Verb::Take, 1, 0); shape.asks];
        let first = self.next;
        self.next += shape.keys;
        let counters: Vec<Counter<'_>> = (first..first + shape.keys)
            .map(|number| Counter {
                key: &self.keys[number % KEYS],
                limit: self.limit,
                key_hash: 0,
                around: Time::default(),
                asks: &asks,
            })
            .collect();
        self.caller.arguments(None, &counters)
    }

    /// What keys take that were asked for once, and what one takes that is well used.
    fn memory(&mut self) -> Result<([i64; 2], f64), Box<dyn Error>> {
        let before = used_memory(&mut self.node.client())?;
        self.next = 0;
        self.call(Shape { keys: 100, asks: 1 }, KEYS / 100)?;
        let grown = used_memory(&mut self.node.client())? - before;
        let usage = |client: &mut RedisClient, key: &[u8]| {
            client.command(&[b"MEMORY", b"USAGE", key, b"SAMPLES", b"0"]).integer()
        };
        let once = usage(self.caller.client(), &self.keys[0].clone());
        self.next = 1;
        for _ in 1..USED {
            // One by one, as requests come.
            self.next = 1;
            self.call(Shape { keys: 1, asks: 1 }, 1)?;
        }
        let well_used = usage(self.caller.client(), &self.keys[1].clone());
        Ok(([once, well_used], grown / KEYS as f64))
    }
}

/// Sends calls together, and waits for all answers.
fn exchange(client: &mut RedisClient, calls: &[Vec<Vec<u8>>]) -> Result<(), Box<dyn Error>> {
    for call in calls {
        let words: Vec<&[u8]> = call.iter().map(Vec::as_slice).collect();
        client.send(&words)?;
    }
    for _ in calls {
        if let Reply::Error(message) = black_box(client.receive()?) {
            return Err(message.into());
        }
    }
    Ok(())
}

fn used_memory(client: &mut RedisClient) -> Result<f64, Box<dyn Error>> {
    let info = client.run("INFO memory").text();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.parse().ok());
    used.ok_or_else(|| "Redis does not say how much memory it uses".into())
}
