//! Durable quotas while servers are killed, and while the database is: whether anything is ever admitted that is not counted, and how much is counted that nobody had.

use std::error::Error;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::real::postgres::{PostgresLaunch, PostgresServer};
use tollgate_testkit::real::{Client, DurableQuota, Killed, Launch, Tollgate};

use crate::table::Table;
use crate::timer::Stopwatch;

/// What to try.
#[derive(clap::Args)]
pub(crate) struct DurableFaultsArgs {
    /// How often a server is killed under load, on each database
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    kills: u64,
    /// For how many seconds PostgreSQL is gone
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    gone_s: u64,
}

const QUOTA: DurableQuota = DurableQuota { policy: "monthly", key: "acme", units: 1_000_000 };
/// What one process may have in hand: a hundredth, which is what rules say that say nothing.
const BLOCK_MAX: u64 = QUOTA.units / 100;
const RULES: &str = "policies: {monthly: {requests: 1000000, calendar: month, durable: true}}\n";
/// After so many answers at least a server is killed, and so many more at most.
const ANSWERS_MIN: u64 = 1_000;
const ANSWERS_MORE: u64 = 9_000;
/// Between two questions while PostgreSQL is gone.
const PAUSE: Duration = Duration::from_millis(1);
/// Whether the load before it is spread over so long that a block is worth it.
const WARM_UP: Duration = Duration::from_secs(3);

fn launch(database: &str) -> Result<Tollgate, Box<dyn Error>> {
    let program = std::env::current_exe()?.display().to_string();
    let launch = Launch::new(&program).rules("rules.yaml", RULES).flag("workers", "1");
    Ok(launch.flag("database", database).flag("database-deadline", "10s").start())
}

/// Runs all scenes; an error if anything is admitted beyond what is counted.
pub(crate) fn run(args: &DurableFaultsArgs) -> Result<(), Box<dyn Error>> {
    println!("A quota of {}; a process has {BLOCK_MAX} units in hand at most.\n", QUOTA.units);
    let on_sqlite = Kills::make(args.kills, "sqlite:data/tollgate.db")?;
    let postgres = PostgresLaunch::default().durable().start();
    let on_postgres = Kills::make(args.kills, &postgres.url())?;
    let mut table = Table::new([
        "SIGKILL of a server under load",
        "kills",
        "admitted",
        "counted",
        "lost in all",
        "lost at most in one",
        "beyond a block",
        "admitted in the end",
    ]);
    for (name, kills) in [("SQLite", &on_sqlite), ("PostgreSQL", &on_postgres)] {
        table.add_row(kills.row(name));
    }
    println!("{table}\n");
    let shared = PostgresLaunch::default().durable().start();
    let servers = [launch(&shared.url())?, launch(&shared.url())?];
    let admitted = QUOTA.use_up(&servers);
    println!("Two servers on one PostgreSQL use up the quota of {}: {admitted} are admitted.\n", QUOTA.units);
    drop(servers);
    let mut gone = PostgresLaunch::default().durable().start();
    let outage = Outage::make(&mut gone, Duration::from_secs(args.gone_s))?;
    println!("{outage}\n");
    println!(
        "durable-faults: lost_max={} beyond_block={} over_quota={} shared={admitted} uncounted={}",
        on_sqlite.lost_max().max(on_postgres.lost_max()),
        on_sqlite.beyond_block() + on_postgres.beyond_block(),
        on_sqlite.over_quota() + on_postgres.over_quota() + admitted.saturating_sub(QUOTA.units),
        outage.uncounted,
    );
    if on_sqlite.is_bad() || on_postgres.is_bad() || admitted != QUOTA.units || outage.uncounted > 0 {
        return Err("a durable quota was not kept".into());
    }
    Ok(())
}

/// A server that was killed again and again, and in the end used up what was left.
struct Kills {
    killed: Vec<Killed>,
    used_before: u64,
    rest: u64,
}

impl Kills {
    fn make(kills: u64, database: &str) -> Result<Kills, Box<dyn Error>> {
        let mut server = launch(database)?;
        let mut killed = Vec::new();
        for kill in 0..kills {
            let answers = ANSWERS_MIN + kill.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ANSWERS_MORE;
            killed.push(QUOTA.kill(&mut server, answers));
            eprint!("\r{} of {kills} kills", kill + 1);
        }
        eprintln!();
        let used_before = QUOTA.used(&server);
        let rest = QUOTA.use_up(std::slice::from_ref(&server));
        Ok(Kills { killed, used_before, rest })
    }

    fn lost_max(&self) -> u64 {
        self.killed.iter().map(Killed::lost).max().unwrap_or(0)
    }

    /// How often more was lost than what a process may have in hand, and answers that were on their way.
    fn beyond_block(&self) -> usize {
        let max = BLOCK_MAX + DurableQuota::UNHEARD_MAX;
        self.killed.iter().filter(|killed| killed.lost() > max).count()
    }

    fn over_quota(&self) -> u64 {
        (self.used_before + self.rest).saturating_sub(QUOTA.units)
    }

    fn is_bad(&self) -> bool {
        self.beyond_block() > 0 || self.used_before + self.rest != QUOTA.units
    }

    fn row(&self, name: &str) -> Vec<String> {
        let sum = |of: fn(&Killed) -> u64| self.killed.iter().map(of).sum::<u64>();
        let (admitted, counted) = (sum(|killed| killed.admitted), sum(|killed| killed.counted));
        let numbers = [
            self.killed.len() as u64,
            admitted,
            counted,
            counted - admitted,
            self.lost_max(),
            self.beyond_block() as u64,
            admitted + self.rest,
        ];
        std::iter::once(name.to_owned()).chain(numbers.map(|number| number.to_string())).collect()
    }
}

/// PostgreSQL was gone for a while.
struct Outage {
    seconds: f64,
    /// Decisions of the block, those that the rule made because nobody could be asked, and others.
    of_block: u64,
    closed: u64,
    other: u64,
    /// Until when the block lasted, and when the database counted again after it was back.
    lasted_ms: u64,
    back_after_ms: u64,
    /// Admitted and not counted.
    uncounted: u64,
}

impl Outage {
    fn make(postgres: &mut PostgresServer, duration: Duration) -> Result<Outage, Box<dyn Error>> {
        let mut server = launch(&postgres.url())?;
        let mut client = Client::connect(server.http())?;
        let mut admitted = 0;
        let warming = Stopwatch::start();
        while warming.elapsed_secs() < WARM_UP.as_secs_f64() {
            admitted += u64::from(ask(&mut client)?.0 == 200);
            thread::sleep(PAUSE);
        }
        postgres.kill();
        let gone = Stopwatch::start();
        let mut outage = Outage {
            seconds: 0.0,
            of_block: 0,
            closed: 0,
            other: 0,
            lasted_ms: 0,
            back_after_ms: 0,
            uncounted: 0,
        };
        while gone.elapsed_secs() < duration.as_secs_f64() {
            match ask(&mut client)? {
                (200, decided_by) if decided_by == "lease" => {
                    outage.of_block += 1;
                    outage.lasted_ms = gone.elapsed_ns() / 1_000_000;
                }
                (503, decided_by) if decided_by == "fail_closed" => outage.closed += 1,
                _ => outage.other += 1,
            }
            thread::sleep(PAUSE);
        }
        outage.seconds = gone.elapsed_secs();
        admitted += outage.of_block;
        postgres.restart();
        let back = Stopwatch::start();
        while ask(&mut client)?.0 != 200 {
            thread::sleep(PAUSE);
        }
        admitted += 1;
        outage.back_after_ms = back.elapsed_ns() / 1_000_000;
        server.restart();
        outage.uncounted = admitted.saturating_sub(QUOTA.used(&server));
        Ok(outage)
    }
}

impl std::fmt::Display for Outage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PostgreSQL gone for {:.0} s: {} decisions of the block (for {} ms), then {} by `fail_mode: closed`, {} others; {} ms after it was back it counted again.",
            self.seconds, self.of_block, self.lasted_ms, self.closed, self.other, self.back_after_ms
        )
    }
}

/// Asks for one unit. Tells the status, and who decided.
fn ask(client: &mut Client) -> Result<(u16, String), Box<dyn Error>> {
    let reply = client.post("/v1/check", &json!({ "policy": QUOTA.policy, "key": QUOTA.key }).to_string());
    let body: Value = serde_json::from_str(&reply.body)?;
    Ok((reply.status, body["decisions"][0]["decided_by"].as_str().unwrap_or_default().to_owned()))
}
