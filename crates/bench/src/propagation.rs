//! How long it takes until a change that one server took is in force on another: both on one PostgreSQL and one Redis.
//!
//! Four scenes: PostgreSQL tells of every change; what it tells is cut off, so that only asking now and then is left; both servers take changes of
//! the same tenants at the same time, after which both must decide alike; and PostgreSQL is gone for a while, in which decisions must go on, and after which
//! nothing that was acknowledged may be missing.

mod outage;

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tollgate_testkit::real::postgres::{PostgresLaunch, PostgresServer};
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Client, Launch, Reply, Tollgate};

use crate::ledger::load_average;
use crate::table::Table;
use crate::timer::Stopwatch;

/// Who is meant by other names is somebody else, to the admin API.
const HOST: (&str, &str) = ("host", "localhost");
const TOKEN: &str = "propagation-0123456789abcdef";
const RULES: &str = "policies: {standard: {requests: 5, period: 1h}}\n";
/// A change that is not in force by then never will be.
const PATIENCE_MS_MAX: u64 = 30_000;
const DIGITS: u8 = 3;
/// Tenants that both servers change at the same time.
const CONTESTED: u64 = 20;

/// How much to change.
#[derive(clap::Args)]
pub(crate) struct PropagationArgs {
    /// How many changes, one after the other
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    changes: u64,
    /// How many while what PostgreSQL tells does not arrive: each takes seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    unheard: u64,
    /// For how many seconds PostgreSQL is gone
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    gone_s: u64,
}

/// Runs all scenes; an error if the servers do not agree in the end.
pub(crate) fn run(args: &PropagationArgs) -> Result<(), Box<dyn Error>> {
    let load_before = load_average().unwrap_or(f64::NAN);
    let (mut postgres, redis) = (PostgresLaunch::default().durable().start(), RedisServer::start());
    let program = std::env::current_exe()?.display().to_string();
    let launch = || {
        Launch::new(&program)
            .rules("rules.yaml", RULES)
            .flag("store", &format!("redis://{}", redis.address()))
            .flag("store-deadline", "100ms")
            .flag("database", &postgres.url())
            .flag("admin-tokens", &format!("admin:bench:{TOKEN}"))
            .flag("admin-rate", "off")
            .flag("workers", "1")
            .start()
    };
    let (one, other) = (launch(), launch());
    let heard = delays(&one, &other, 0..args.changes)?;
    let unheard = deafened(&postgres, || delays(&one, &other, args.changes..args.changes + args.unheard))?;
    let differing = contest(&one, &other, args.changes)?;
    let outage = outage::outlive(&mut postgres, &one, Duration::from_secs(args.gone_s), args.changes)?;

    println!(
        "Two servers, one PostgreSQL, one Redis. From when a change is sent to one until the other decides by it. Load average before: {load_before:.2}.\n"
    );
    let mut table = Table::new(["", "changes", "p50 ms", "p90 ms", "p99 ms", "longest ms"]);
    for (name, delays) in [("told by PostgreSQL", &heard), ("what PostgreSQL tells is cut off", &unheard)] {
        let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
        let mut row = vec![name.to_owned(), delays.len().to_string()];
        row.extend([0.5, 0.9, 0.99].map(|part| ms(delays.value_at_quantile(part))));
        row.push(ms(delays.max()));
        table.add_row(row);
    }
    println!("{table}\n");
    println!(
        "Both at once, {} changes of {CONTESTED} tenants at each: {differing} differ in the end.",
        args.changes
    );
    println!("{outage}");
    let p99_ms = |delays: &Histogram<u64>| delays.value_at_quantile(0.99) as f64 / 1e3;
    println!(
        "propagation: p99_ms={:.1} unheard_max_ms={:.1} differing={differing} undecided={} lost={}",
        p99_ms(&heard),
        unheard.max() as f64 / 1e3,
        outage.undecided,
        outage.lost
    );
    if differing > 0 {
        return Err("the servers do not agree".into());
    }
    outage.check()
}

/// Changes tenants at one server, and waits each time until the other decides by it. In microseconds.
fn delays(
    one: &Tollgate,
    other: &Tollgate,
    tenants: std::ops::Range<u64>,
) -> Result<Histogram<u64>, Box<dyn Error>> {
    let mut delays = Histogram::new_with_max(PATIENCE_MS_MAX * 2_000, DIGITS)?;
    let (mut writer, mut reader) = (Client::connect(one.admin())?, Client::connect(other.http())?);
    for tenant in tenants {
        let units = 100 + tenant;
        let sent = Stopwatch::start();
        put(&mut writer, tenant, units)?;
        while limit_of(&mut reader, tenant)? != Some(units) {
            if sent.elapsed_ns() / 1_000_000 > PATIENCE_MS_MAX {
                return Err(format!("the change of tenant-{tenant} never came to be in force").into());
            }
            thread::sleep(Duration::from_micros(200));
        }
        delays.saturating_record(sent.elapsed_ns() / 1_000);
    }
    Ok(delays)
}

/// Both servers take changes of the same tenants. Of how many tenants they think differently when all is said.
fn contest(one: &Tollgate, other: &Tollgate, changes: u64) -> Result<usize, Box<dyn Error>> {
    let writers = [one.admin(), other.admin()].map(|address| {
        thread::spawn(move || -> Result<(), String> {
            let mut client = Client::connect(address).map_err(|error| error.to_string())?;
            (0..changes).try_for_each(|turn| {
                let units = 1_000 + turn + u64::from(address.port()) * 10_000;
                put(&mut client, u64::MAX - turn % CONTESTED, units).map_err(|error| error.to_string())
            })
        })
    });
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked")??;
    }
    // Longer than it takes to ask, should something not have been heard.
    thread::sleep(Duration::from_secs(6));
    let mut differing = 0;
    for tenant in (0..CONTESTED).map(|tenant| u64::MAX - tenant) {
        let mut told = Vec::new();
        for server in [one, other] {
            let limit = limit_of(&mut Client::connect(server.http())?, tenant)?;
            let path = format!("/admin/v1/quotas/tenant-{tenant}");
            let record = Client::connect(server.admin())?.get(&path, &[HOST, ("authorization", &bearer())]);
            let record: Value = serde_json::from_str(&record.body)?;
            told.push((limit, record["version"].as_u64(), record["overrides"][0]["requests"].as_u64()));
        }
        let is_alike = told[0] == told[1] && told[0].0.is_some() && told[0].0 == told[0].2;
        differing += usize::from(!is_alike);
    }
    Ok(differing)
}

fn bearer() -> String {
    format!("Bearer {TOKEN}")
}

fn put(client: &mut Client, tenant: u64, units: u64) -> Result<(), Box<dyn Error>> {
    let reply = try_put(client, tenant, units)?;
    if matches!(reply.status, 200 | 201) {
        Ok(())
    } else {
        Err(format!("PUT was answered {}: {}", reply.status, reply.body).into())
    }
}

fn try_put(client: &mut Client, tenant: u64, units: u64) -> Result<Reply, Box<dyn Error>> {
    let body = json!({"overrides": [{"policy": "standard", "requests": units, "period": "1h"}]}).to_string();
    let headers = [HOST, ("authorization", &*bearer()), ("content-type", "application/json")];
    Ok(client.send("PUT", &format!("/admin/v1/quotas/tenant-{tenant}"), &headers, &body)?)
}

/// The limit that a server tells a tenant.
fn limit_of(client: &mut Client, tenant: u64) -> Result<Option<u64>, Box<dyn Error>> {
    let question = json!({"policy": "standard", "key": format!("tenant-{tenant}")}).to_string();
    let reply = client.send("POST", "/v1/peek", &[], &question)?;
    Ok(serde_json::from_str::<Value>(&reply.body)?["limit"].as_u64())
}

/// Does something while nobody hears what PostgreSQL tells: those of its processes that would tell stand still, also new ones.
fn deafened<R>(postgres: &PostgresServer, act: impl FnOnce() -> R) -> R {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut frozen = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let listening = postgres.sql("SELECT pid FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'");
                for pid in listening.lines().filter(|pid| !pid.is_empty()) {
                    signal("-STOP", pid);
                    frozen.push(pid.to_owned());
                }
                thread::sleep(Duration::from_millis(100));
            }
            for pid in &frozen {
                signal("-CONT", pid);
            }
        });
        thread::sleep(Duration::from_millis(500));
        let done = act();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

fn signal(signal: &str, pid: &str) {
    // One that has ended need not stand still.
    let _ =
        std::process::Command::new("kill").args([signal, pid]).stderr(std::process::Stdio::null()).status();
}
