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
/// An attack that is over sooner is run again, until others have had time to notice.
const LASTING_SECS: f64 = 2.0;
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
}

/// Runs all attacks; an error if one of them did harm.
pub(crate) fn run(args: &HostileArgs) -> Result<(), Box<dyn Error>> {
    let server = match &args.server {
        Some(path) => path.canonicalize()?,
        None => std::env::current_exe()?,
    };
    let server = server.display().to_string();
    let force = if args.quick { 1 } else { FORCE };
    let chosen: Vec<Attack> =
        attacks().into_iter().filter(|attack| title(attack).to_lowercase().contains(&args.only)).collect();
    let progress = ProgressBar::new(chosen.len() as u64);
    let (patient, quick): (Vec<_>, Vec<_>) = chosen.iter().partition(|attack| attack.pace == Pace::Patient);
    let mut rows = Vec::new();
    for attack in quick {
        rows.push(measure(&server, attack, force));
        progress.inc(1);
    }
    // These mostly wait, and can do so side by side.
    thread::scope(|scope| {
        let waiting: Vec<_> =
            patient.into_iter().map(|attack| scope.spawn(|| measure(&server, attack, force))).collect();
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
fn measure(server: &str, attack: &Attack, force: usize) -> Row {
    let tollgate = Launch::new(server).rules("rules.yaml", RULES).start();
    let companion = Companion::start(&tollgate, clock_ns);
    companion.wait_for_rounds(3);
    let vitals = Vitals::watch(&tollgate);
    let began = Stopwatch::start();
    let mut tally = attack.run(&tollgate, force);
    let mut runs = 1;
    while tally.wrong().is_empty() && began.elapsed_secs() < LASTING_SECS {
        tally = attack.run(&tollgate, force);
        runs += 1;
    }
    let peak_bytes = vitals.peak_growth_bytes();
    let settled = vitals.settles_within(SETTLE_TIME);
    companion.wait_for_rounds(3);
    let mut service = companion.stop();
    let mut wrong: Vec<String> = tally.wrong().iter().chain(&service.complaints).cloned().collect();
    if peak_bytes > attack.peak_bytes_max * force as u64 {
        wrong.push(format!("grew by {} MiB", peak_bytes >> 20));
    }
    if !settled {
        wrong.push(format!("{} connections are left", vitals.files_left()));
    }
    if tollgate.logs().contains("panicked") {
        wrong.push("the server panicked".to_owned());
    }
    let wrong = wrong.into_iter().map(|what| format!("{}: {what}", title(attack))).collect();
    let outcome: String = tally.to_string().chars().take(OUTCOME_CHARS_MAX).collect();
    let cells = vec![
        title(attack),
        attack.expected.to_owned(),
        outcome.replace('|', "/"),
        runs.to_string(),
        format!("{:.1}", peak_bytes as f64 / f64::from(1 << 20)),
        service.asked.to_string(),
        service.wrong.to_string(),
        format!("{:.2}", p99_ms(&mut service)),
    ];
    Row { cells, wrong }
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
    let mut wrong = Vec::new();
    for row in rows {
        table.add_row(row.cells);
        wrong.extend(row.wrong);
    }
    println!("{table}");
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
