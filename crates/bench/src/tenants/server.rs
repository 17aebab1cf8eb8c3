//! The same tenants in the database of a real server: how long it takes to be ready, what it occupies, and how long one more PUT takes.
//!
//! No two tenants have the same terms, which is the most that a server can have to remember. The server is this program itself, started with the
//! flags of `tollgate serve`, on a file of SQLite, where a change is on the disk before it is answered.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tollgate_control::{Action, Change, Condition, Database, DatabaseAddress, DatabaseSettings, Kind, Who};
use tollgate_testkit::real::{Client, Launch, Tollgate};

use super::name;
use crate::resident::resident_bytes_of;
use crate::timer::Stopwatch;

/// Who is meant by other names is somebody else, to the admin API.
const HOST: (&str, &str) = ("host", "localhost");
const TOKEN: &str = "tenants-0123456789abcdef";
const RULES: &str = "
domain: bench
tenant_key: tenant
descriptors:
- key: endpoint
  value: POST /v1/orders
  descriptors:
  - {key: tenant, rate_limit: {unit: hour, requests_per_unit: 5}}
";
const ENDPOINT: &str = "POST /v1/orders";
/// So many are written to the database before progress is shown.
const STRIDE: u64 = 10_000;
/// Four million tenants take a server longer to read than most tests wait.
const PATIENCE: Duration = Duration::from_mins(5);
const LATENCY_US_MAX: u64 = 60_000_000;
const DIGITS: u8 = 3;
/// What the first of all tenants has. The others have more, one each.
const UNITS_MIN: u64 = 1_000;

/// What was measured of a server.
pub(super) struct Served {
    write_s: f64,
    file_bytes: u64,
    pub(super) start_s: f64,
    pub(super) resident_bytes: u64,
    puts_us: Histogram<u64>,
}

impl Served {
    pub(super) fn put_ms(&self, quantile: f64) -> f64 {
        self.puts_us.value_at_quantile(quantile) as f64 / 1e3
    }

    /// For people.
    pub(super) fn print(&self, tenants: u64) {
        println!(
            "A server on SQLite, {tenants} tenants with an override each, no two alike (written in {:.0} s, {} MiB on the disk): ready {:.1} s after its start, {} MiB resident.",
            self.write_s,
            self.file_bytes >> 20,
            self.start_s,
            self.resident_bytes >> 20,
        );
        println!(
            "PUT /admin/v1/quotas/{{api_key}} over HTTP, {} of them, each in force when it was answered: p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms.\n",
            self.puts_us.len(),
            self.put_ms(0.5),
            self.put_ms(0.99),
            self.puts_us.max() as f64 / 1e3,
        );
    }
}

/// Starts a server with so many tenants and changes some of them; an error if one of the changes is not in force.
pub(super) fn measure(tenants: u64, puts: u64) -> Result<Served, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("tollgate.db");
    let writing = Stopwatch::start();
    fill(&path, tenants)?;
    let write_s = writing.elapsed_secs();
    let program = std::env::current_exe()?.display().to_string();
    let launch = Launch::new(&program)
        .rules("rules.yaml", RULES)
        .flag("database", &format!("sqlite://{}", path.display()))
        .flag("admin-tokens", &format!("admin:bench:{TOKEN}"))
        .flag("admin-rate", "off")
        .flag("workers", "1")
        .patience(PATIENCE);
    let starting = Stopwatch::start();
    let server = launch.start();
    let start_s = starting.elapsed_secs();
    let resident_bytes = resident_bytes_of(server.pid())?;
    let puts_us = change(&server, tenants, puts)?;
    Ok(Served { write_s, file_bytes: std::fs::metadata(&path)?.len(), start_s, resident_bytes, puts_us })
}

/// Writes a database with so many tenants.
fn fill(path: &Path, tenants: u64) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let address = DatabaseAddress::Sqlite(path.to_owned());
        let database = Database::open(DatabaseSettings::new(address)).await?;
        let progress = progress_bar(tenants);
        for start in (0..tenants).step_by(STRIDE as usize) {
            let some = (start..tenants.min(start + STRIDE)).map(written).collect();
            for outcome in database.change_many(some, 0).await {
                outcome?;
            }
            progress.set_position(tenants.min(start + STRIDE));
        }
        progress.finish_and_clear();
        Ok(())
    })
}

fn written(tenant: u64) -> Change {
    Change {
        who: Who { name: "bench".to_owned(), role: "admin".to_owned() },
        action: Action::IMPORT,
        kind: Kind::Quota,
        id: name(tenant),
        body: Some(body(UNITS_MIN + tenant)),
        condition: Condition::Any,
        repeat: None,
    }
}

fn body(units: u64) -> String {
    let wanted =
        json!({"descriptor": format!("endpoint:{ENDPOINT}"), "requests_per_unit": units, "unit": "hour"});
    json!({"tier": null, "overrides": [wanted], "effective_at": null, "expires_at": null}).to_string()
}

/// Changes tenants, one after the other, and looks each time whether the server decides by it. In microseconds.
fn change(server: &Tollgate, tenants: u64, puts: u64) -> Result<Histogram<u64>, Box<dyn Error>> {
    let mut puts_us = Histogram::new_with_max(LATENCY_US_MAX, DIGITS)?;
    let (mut writer, mut reader) = (Client::connect(server.admin())?, Client::connect(server.http())?);
    let bearer = format!("Bearer {TOKEN}");
    let fields = [HOST, ("authorization", &*bearer), ("content-type", "application/json")];
    for turn in 0..puts {
        // Every other tenant is new, and so are its terms.
        let tenant = if turn % 2 == 0 { turn * 4_099 % tenants } else { tenants + turn };
        let units = UNITS_MIN + 2 * tenants + turn;
        let path = format!("/admin/v1/quotas/{}", name(tenant));
        let body = body(units);
        let sent = Stopwatch::start();
        let reply = writer.send("PUT", &path, &fields, &body)?;
        puts_us.saturating_record(sent.elapsed_ns() / 1_000);
        if !matches!(reply.status, 200 | 201) {
            return Err(format!("PUT was answered {}: {}", reply.status, reply.body).into());
        }
        let limit = limit_of(&mut reader, tenant)?;
        if limit != Some(units) {
            return Err(format!("PUT of {units} was answered, and {limit:?} is in force").into());
        }
    }
    Ok(puts_us)
}

/// The limit that the server tells a tenant.
fn limit_of(client: &mut Client, tenant: u64) -> Result<Option<u64>, Box<dyn Error>> {
    let entries = json!([{"key": "endpoint", "value": ENDPOINT}, {"key": "tenant", "value": name(tenant)}]);
    let question = json!({"domain": "bench", "descriptors": [{"entries": entries}]}).to_string();
    let reply = client.send("POST", "/v1/peek", &[], &question)?;
    Ok(serde_json::from_str::<Value>(&reply.body)?["limit"].as_u64())
}

fn progress_bar(tenants: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} tenants written, {eta} left");
    let progress = ProgressBar::new(tenants);
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress
}
