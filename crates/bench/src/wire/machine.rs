//! What the machine takes away: how late a thread sees a moment that it does nothing but wait for.
//!
//! Where the kernel or a hypervisor takes a core away for milliseconds, no server can answer within one. Whoever looks at the latencies of
//! a server has to know that first.

use std::error::Error;
use std::hint::spin_loop;
use std::time::Duration;
use std::{io, thread};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;

use super::contest::STEADY_EVERY_NS;
use super::core::Cores;
use crate::timer::Stopwatch;

const LATE_NS_MAX: u64 = 60_000_000_000;
const DIGITS: u8 = 3;

/// How late moments were seen.
pub(super) struct Lateness {
    /// Whose core it was, in words.
    pub(super) whose: &'static str,
    pub(super) late_ns: Histogram<u64>,
}

/// Waits on both cores at the same time, each for moments as far apart as the batches of a busy server.
pub(super) fn measure(
    cores: &Cores,
    duration: Duration,
    progress: &ProgressBar,
) -> Result<Vec<Lateness>, Box<dyn Error>> {
    progress.set_message("100,000 a second: nobody");
    let measured = thread::scope(|scope| {
        let server = scope.spawn(|| cores.serve().and_then(|()| watch(duration)));
        let generator = scope.spawn(|| cores.generate().and_then(|()| watch(duration)));
        [("server", server.join()), ("generator", generator.join())]
    });
    progress.inc(1);
    let told = measured.into_iter().map(|(whose, late)| {
        let late_ns = late.map_err(|_| "a thread that waits has panicked")??;
        Ok(Lateness { whose, late_ns })
    });
    told.collect()
}

fn watch(duration: Duration) -> io::Result<Histogram<u64>> {
    let mut late_ns = Histogram::new_with_bounds(1, LATE_NS_MAX, DIGITS).map_err(io::Error::other)?;
    let (clock, end_ns) = (Stopwatch::start(), u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let mut due_ns = STEADY_EVERY_NS;
    while due_ns < end_ns {
        let now_ns = clock.elapsed_ns();
        if now_ns < due_ns {
            spin_loop();
            continue;
        }
        // All that fell due meanwhile are seen only now.
        late_ns.saturating_record(now_ns - due_ns);
        due_ns += STEADY_EVERY_NS;
    }
    Ok(late_ns)
}
