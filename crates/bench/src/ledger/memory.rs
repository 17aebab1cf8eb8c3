//! Memory per key, as the kernel sees it: the growth of a child process that does nothing but fill one table.

use std::env;
use std::error::Error;
use std::process::Command;
use std::thread;

use indicatif::ProgressBar;

use crate::contender::{self, Kind};
use crate::resident::Growth;
use crate::upkeep::while_tending;

/// What is measured: a contender, and whether its table is sized beforehand.
pub(super) const MEASURED: [(Kind, Start); 8] = [
    (Kind::Bucket, Start::Small),
    (Kind::Bucket, Start::Sized),
    (Kind::Sliding, Start::Small),
    (Kind::Sliding, Start::Sized),
    (Kind::GovernorText, Start::Sized),
    (Kind::GovernorNumber, Start::Sized),
    (Kind::Throttlecrab, Start::Sized),
    (Kind::Pingora, Start::Sized),
];

/// How a table begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Small, and grows.
    Small,
    /// Sized for what comes.
    Sized,
}

/// Bytes per key of every measured contender.
pub(super) struct Memory {
    bytes_per_key: Vec<(Kind, Start, f64)>,
}

impl Memory {
    /// The figure of one contender, where it was measured.
    pub(super) fn of(&self, kind: Kind, start: Start) -> Option<f64> {
        let found = self.bytes_per_key.iter().find(|(each, at, _)| (*each, *at) == (kind, start));
        found.map(|(_, _, bytes)| *bytes)
    }
}

/// The work of the child process.
#[derive(clap::Args)]
pub(crate) struct MemoryArgs {
    /// Who fills a table
    contender: Kind,
    /// With how many keys
    keys: u64,
    /// Whether the table starts small
    #[arg(long)]
    grow: bool,
}

/// Measures all, one child process after the other.
pub(super) fn measure(keys: u64, progress: &ProgressBar) -> Result<Memory, Box<dyn Error>> {
    let mut bytes_per_key = Vec::new();
    for (kind, start) in MEASURED {
        progress.set_message(format!("memory of {}", kind.label()));
        let bytes = measure_in_child(kind, start, keys)?;
        bytes_per_key.push((kind, start, bytes as f64 / keys as f64));
        progress.inc(1);
    }
    Ok(Memory { bytes_per_key })
}

fn measure_in_child(kind: Kind, start: Start, keys: u64) -> Result<u64, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["memory", &kind.argument(), &keys.to_string()]);
    if start == Start::Small {
        command.arg("--grow");
    }
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.trim().parse() {
        Ok(bytes) if output.status.success() => Ok(bytes),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("measuring the memory of {} failed: {}", kind.label(), said.trim()).into())
        }
    }
}

/// The child: fills a table and prints by how many bytes the process grew.
pub(crate) fn run(args: &MemoryArgs) -> Result<(), Box<dyn Error>> {
    // What the stream of keys and the first thread take is there before the measure is taken.
    contender::fill(&*contender::build(Kind::Pingora, 0)?, args.keys);
    thread::scope(|scope| scope.spawn(|| ()).join()).map_err(|_| "a thread died")?;
    let mut growth = Growth::start()?;
    let keys_expected = if args.grow { 0 } else { usize::try_from(args.keys)? };
    let contender = contender::build(args.contender, keys_expected)?;
    while_tending(|| contender.tend(), || contender::fill(&*contender, args.keys));
    println!("{}", growth.sample()?);
    Ok(())
}
