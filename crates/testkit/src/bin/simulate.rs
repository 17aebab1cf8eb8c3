//! Runs schedules of the simulated fleet, many of them, and prints the seed of the first that goes wrong.
//!
//! `simulate [--schedules N] [--from SEED] [--threads N]`, or `simulate --seed SEED` to replay one. Without `--threads`,
//! it uses every core. A seed gives the same run on any number of threads.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tollgate_testkit::simulation::{Outcome, Schedule, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(Some(default), |at| arguments.get(at + 1)?.replace('_', "").parse().ok())
    };
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let (Some(schedules), Some(from), Some(threads), Some(seed)) = (
        value("--schedules", 100_000),
        value("--from", 0),
        value("--threads", cores),
        value("--seed", u64::MAX),
    ) else {
        eprintln!("usage: simulate [--schedules N] [--from SEED] [--threads N] | simulate --seed SEED");
        return ExitCode::from(2);
    };
    if seed != u64::MAX {
        let mut schedule = Schedule::draw(seed);
        schedule.is_told = true;
        return match run(&schedule) {
            Ok(outcome) => {
                println!("seed {seed}: {outcome:?}");
                ExitCode::SUCCESS
            }
            Err(violation) => {
                eprintln!("{violation}");
                ExitCode::FAILURE
            }
        };
    }
    let (next, is_wrong) = (AtomicU64::new(from), AtomicBool::new(false));
    let totals = thread::scope(|scope| {
        let work = || {
            let mut total = Outcome::default();
            while !is_wrong.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= from + schedules {
                    break;
                }
                if (seed - from) % 1_000_000 == 999_999 {
                    eprintln!("{} schedules", seed - from + 1);
                }
                // A machine that panics has gone wrong, too.
                match catch_unwind(|| run(&Schedule::draw(seed))) {
                    Ok(Ok(outcome)) => total.add(&outcome),
                    gone_wrong => {
                        is_wrong.store(true, Ordering::Relaxed);
                        let violation =
                            gone_wrong.map_or_else(|_| "a panic".to_owned(), |run| format!("{run:?}"));
                        eprintln!("{violation}\nreplay it: simulate --seed {seed}");
                    }
                }
            }
            total
        };
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let mut total = Outcome::default();
        for worker in workers {
            match worker.join() {
                Ok(part) => total.add(&part),
                Err(_) => is_wrong.store(true, Ordering::Relaxed),
            }
        }
        total
    });
    if is_wrong.load(Ordering::Relaxed) {
        return ExitCode::FAILURE;
    }
    println!("schedules={schedules} from={from} violations=0 {totals}");
    ExitCode::SUCCESS
}
