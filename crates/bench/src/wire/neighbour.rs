//! One tenant takes all it can get; the others ask now and then. How much longer do they wait?

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use tollgate_load::{Arrivals, Keys, Load, Pace, Protocol, Report};

use super::child::Child;
use super::questions;

/// How many runs there are.
pub(super) const STEPS: usize = 4;
/// What the others ask, together.
pub(super) const OTHERS_PER_SECOND: f64 = 1_000.0;
const OTHERS_CONNECTIONS: usize = 4;
/// What the one has under way: pipelines as deep as it likes.
pub(super) const TENANT_CONNECTIONS: usize = 8;
pub(super) const TENANT_PIPELINE: usize = 512;
/// The one's generator gives way to that of the others: what is measured is the server.
const TENANT_NICENESS: i32 = 15;
/// How long the one may take to be at full speed.
const TENANT_START: Duration = Duration::from_millis(200);

/// How long the others waited.
pub(super) struct Others {
    pub(super) protocol: Protocol,
    pub(super) alone: Report,
    pub(super) beside: Report,
    /// What the tenant got meanwhile.
    pub(super) tenant_per_second: f64,
}

/// The others alone, and beside the one, over both protocols that batches matter for.
pub(super) fn measure(
    child: &Child,
    duration: Duration,
    progress: &ProgressBar,
) -> Result<Vec<Others>, Box<dyn Error>> {
    let mut measured = Vec::new();
    for (protocol, question) in
        [(Protocol::Resp, questions::throttle()), (Protocol::Rls, questions::descriptors())]
    {
        let pace = Pace::Planned { per_second: OTHERS_PER_SECOND, arrivals: Arrivals::Poisson, batch: 1 };
        let others = Load {
            pace,
            duration,
            connections: OTHERS_CONNECTIONS,
            ..questions::load(child, protocol, question)
        };
        progress.set_message(format!("{protocol}, others alone"));
        let alone = questions::run(&others)?;
        progress.inc(1);
        progress.set_message(format!("{protocol}, others beside one who saturates"));
        let (beside, tenant_per_second) = beside(child, &others)?;
        progress.inc(1);
        measured.push(Others { protocol, alone, beside, tenant_per_second });
    }
    Ok(measured)
}

/// Runs the others while one tenant asks as fast as it can.
fn beside(child: &Child, others: &Load) -> Result<(Report, f64), Box<dyn Error>> {
    let tenant = Load {
        keys: Keys { count: 1, ..others.keys },
        connections: TENANT_CONNECTIONS,
        in_flight: TENANT_PIPELINE,
        ..questions::load(child, Protocol::Resp, questions::throttle())
    };
    let is_over = AtomicBool::new(false);
    let until_over = async {
        while !is_over.load(Ordering::Relaxed) {
            tokio::time::sleep(TENANT_START / 10).await;
        }
    };
    thread::scope(|scope| {
        let saturating = scope.spawn(|| {
            // Refused where nobody may be nice: then it shares the core as an equal.
            let _ = rustix::process::nice(TENANT_NICENESS);
            tollgate_load::run(&tenant, until_over, |_| ())
        });
        thread::sleep(TENANT_START);
        let report = questions::run(others);
        is_over.store(true, Ordering::Relaxed); // orders nothing else
        let tenant = saturating.join().map_err(|_| "the tenant's thread died")??;
        let per_second = tenant.tally.decided() as f64 / tenant.elapsed.as_secs_f64();
        Ok((report?, per_second))
    })
}
