//! Every attack of the test kit, harder than a test has time for: what became of it, what it cost, and how others were served meanwhile.
//!
//! Each attack meets a server of its own, so that what one leaves behind is not counted against the next. The server is another
//! process, because its memory is counted from outside: this program itself, unless told to take another.

mod serve;

use std::error::Error;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use tollgate_testkit::real::Launch;
use tollgate_testkit::real::hostile::{Attack, Companion, Pace, RULES, Service, Vitals, attacks};

pub(crate) use self::serve::{ServeArgs, run_server};
use crate::table::Table;
use crate::timer::Stopwatch;

/// How much harder than in a test.
const FORCE: usize = 4;
/// What counters may take.
const MEMORY: &str = "256MiB";
/// What the server may take in all, under any attack.
const RESIDENT_BYTES_MAX: u64 = 512 << 20;
/// How long connections may be left after an attack.
const SETTLE_TIME: Duration = Duration::from_mins(1);
/// So much of an outcome is shown.
const OUTCOME_CHARS_MAX: usize = 100;

/// What to run.
#[derive(clap::Args)]
pub(crate) struct HostileArgs {
    /// As hard as a test, no harder
    #[arg(long)]
    quick: bool,
    /// An attack that is over sooner is run again until so many seconds have passed
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The hard limit of the server's file descriptors, such as 1024
    #[arg(long)]
    descriptors: Option<u32>,
    /// Only attacks whose listener and name contain this, such as `grpc` or `flood`
    #[arg(long, default_value = "")]
    only: String,
    /// The `tollgate` to attack, instead of this program
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
}

/// What one attack came to.
struct Row {
    cells: Vec<String>,
    wrong: Vec<String>,
    resident_bytes: u64,
    p99_ms: f64,
}

/// How every attack is made.
struct Setting {
    server: String,
    force: usize,
    seconds: f64,
    descriptors: Option<u32>,
}

/// Runs all attacks; an error if one of them did harm.
pub(crate) fn run(args: &HostileArgs) -> Result<(), Box<dyn Error>> {
    let server = match &args.server {
        Some(path) => path.canonicalize()?,
        None => std::env::current_exe()?,
    };
    let setting = Setting {
        server: server.display().to_string(),
        force: if args.quick { 1 } else { FORCE },
        seconds: args.seconds,
        descriptors: args.descriptors,
    };
    let chosen: Vec<Attack> =
        attacks().into_iter().filter(|attack| title(attack).to_lowercase().contains(&args.only)).collect();
    let progress = ProgressBar::new(chosen.len() as u64);
    let (patient, quick): (Vec<_>, Vec<_>) = chosen.iter().partition(|attack| attack.pace == Pace::Patient);
    let mut rows = Vec::new();
    for attack in quick {
        rows.push(measure(&setting, attack));
        progress.inc(1);
    }
    // These mostly wait, and can do so side by side.
    thread::scope(|scope| {
        let waiting: Vec<_> =
            patient.into_iter().map(|attack| scope.spawn(|| measure(&setting, attack))).collect();
        for thread in waiting {
            rows.extend(thread.join());
            progress.inc(1);
        }
    });
    progress.finish_and_clear();
    report(rows)
}

fn title(attack: &Attack) -> String {
    format!("{}: {}", format!("{:?}", attack.on).to_lowercase(), attack.name)
}

fn clock_ns() -> u64 {
    static CLOCK: OnceLock<Stopwatch> = OnceLock::new();
    CLOCK.get_or_init(Stopwatch::start).elapsed_ns()
}

/// Attacks a server of its own.
fn measure(setting: &Setting, attack: &Attack) -> Row {
    let Setting { server, force, seconds, descriptors } = setting;
    let launch = Launch::new(server).rules("rules.yaml", RULES).flag("memory", MEMORY);
    // Attacks repeat with new connections from one address, more than it may open a second.
    let launch = launch.flag("connection-rate-per-client", "off");
    let tollgate = match descriptors {
        Some(count) => launch.descriptors(*count),
        None => launch,
    }
    .start();
    let companion = Companion::start(&tollgate, clock_ns);
    companion.wait_for_rounds(3);
    let vitals = Vitals::watch(&tollgate);
    let began = Stopwatch::start();
    let mut tally = attack.run(&tollgate, *force);
    let mut runs = 1;
    while tally.wrong().is_empty() && began.elapsed_secs() < *seconds {
        tally = attack.run(&tollgate, *force);
        runs += 1;
    }
    let (peak_bytes, resident_bytes) = (vitals.peak_growth_bytes(), vitals.peak_bytes());
    let settled = vitals.settles_within(SETTLE_TIME);
    companion.wait_for_rounds(3);
    let mut service = companion.stop();
    let mut wrong: Vec<String> = tally.wrong().iter().chain(&service.complaints).cloned().collect();
    if peak_bytes > attack.peak_bytes_max * *force as u64 {
        wrong.push(format!("grew by {} MiB", peak_bytes >> 20));
    }
    if resident_bytes > RESIDENT_BYTES_MAX {
        wrong.push(format!("took {} MiB in all", resident_bytes >> 20));
    }
    if !settled {
        wrong.push(format!("{} connections are left", vitals.files_left()));
    }
    if tollgate.logs().contains("panicked") {
        wrong.push("the server panicked".to_owned());
    }
    let wrong = wrong.into_iter().map(|what| format!("{}: {what}", title(attack))).collect();
    let outcome: String = tally.to_string().chars().take(OUTCOME_CHARS_MAX).collect();
    let p99_ms = p99_ms(&mut service);
    let cells = vec![
        title(attack),
        attack.expected.to_owned(),
        outcome.replace('|', "/"),
        runs.to_string(),
        format!("{:.1}", peak_bytes as f64 / f64::from(1 << 20)),
        service.asked.to_string(),
        service.wrong.to_string(),
        format!("{p99_ms:.2}"),
    ];
    Row { cells, wrong, resident_bytes, p99_ms }
}

fn p99_ms(service: &mut Service) -> f64 {
    service.times_ns.sort_unstable();
    let rank = service.times_ns.len().saturating_sub(1) * 99 / 100;
    service.times_ns.get(rank).map_or(0.0, |ns| *ns as f64 / 1e6)
}

fn report(rows: Vec<Row>) -> Result<(), Box<dyn Error>> {
    let mut table = Table::new([
        "attack",
        "must be",
        "outcome, the last time",
        "times",
        "peak, MiB",
        "others asked",
        "wrong answers",
        "their p99, ms",
    ]);
    let resident_mib = rows.iter().map(|row| row.resident_bytes >> 20).max().unwrap_or(0);
    let p99_ms = rows.iter().map(|row| row.p99_ms).fold(0.0, f64::max);
    let (attacks, mut wrong) = (rows.len(), Vec::new());
    for row in rows {
        table.add_row(row.cells);
        wrong.extend(row.wrong);
    }
    println!("{table}");
    let wrongs = wrong.len();
    println!(
        "hostile: attacks={attacks} wrong={wrongs} resident_mib_max={resident_mib} p99_ms_max={p99_ms:.2}"
    );
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
