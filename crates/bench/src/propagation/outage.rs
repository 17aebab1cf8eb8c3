//! PostgreSQL is killed and stays away: decisions go on, changes are refused and say so, and what was acknowledged before is there afterwards.

use std::error::Error;
use std::fmt;
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::{Client, Tollgate};

use super::{DIGITS, HOST, PATIENCE_MS_MAX, bearer, try_put};
use crate::timer::Stopwatch;

/// Decisions follow each other after so long, and changes are tried after so many of them.
const PAUSE: Duration = Duration::from_millis(1);
const DECISIONS_PER_CHANGE: u64 = 1_000;

/// What an outage did.
pub(super) struct Outage {
    seconds: f64,
    decisions: u64,
    /// Without an answer, or with one that is no decision.
    pub(super) undecided: u64,
    latencies_us: Histogram<u64>,
    refused: u64,
    /// Taken although nobody could.
    taken: u64,
    /// Until a change was taken again.
    back_after_ms: u64,
    acknowledged: u64,
    pub(super) lost: u64,
    audit_is_whole: bool,
}

impl Outage {
    pub(super) fn check(&self) -> Result<(), Box<dyn Error>> {
        if self.undecided + self.lost + self.taken > 0 || !self.audit_is_whole {
            return Err("the outage did harm".into());
        }
        Ok(())
    }
}

/// Kills PostgreSQL, decides without it, and looks afterwards whether all tenants that were changed before are still there.
pub(super) fn outlive(
    postgres: &mut PostgresServer,
    server: &Tollgate,
    duration: Duration,
    tenants: u64,
) -> Result<Outage, Box<dyn Error>> {
    let mut outage = Outage {
        seconds: 0.0,
        decisions: 0,
        undecided: 0,
        latencies_us: Histogram::new_with_max(PATIENCE_MS_MAX * 2_000, DIGITS)?,
        refused: 0,
        taken: 0,
        back_after_ms: 0,
        acknowledged: tenants,
        lost: 0,
        audit_is_whole: false,
    };
    let (mut client, mut writer) = (Client::connect(server.http())?, Client::connect(server.admin())?);
    postgres.kill();
    let gone = Stopwatch::start();
    while u128::from(gone.elapsed_ns()) < duration.as_nanos() {
        let question = json!({"policy": "standard", "key": format!("tenant-{}", outage.decisions % tenants)});
        let asked = Stopwatch::start();
        let status =
            client.send("POST", "/v1/check", &[], &question.to_string()).map_or(0, |reply| reply.status);
        outage.latencies_us.saturating_record(asked.elapsed_ns() / 1_000);
        outage.undecided += u64::from(!matches!(status, 200 | 429));
        if outage.decisions.is_multiple_of(DECISIONS_PER_CHANGE) {
            let refused = try_put(&mut writer, tenants, 1)?;
            outage.refused +=
                u64::from(refused.status == 503 && refused.body.contains("nothing was changed"));
            outage.taken += u64::from(refused.status < 300);
        }
        outage.decisions += 1;
        thread::sleep(PAUSE);
    }
    outage.seconds = gone.elapsed_secs();
    postgres.restart();
    let back = Stopwatch::start();
    while try_put(&mut writer, tenants, 1)?.status >= 300 {
        if back.elapsed_ns() / 1_000_000 > PATIENCE_MS_MAX {
            return Err("no change is taken although the database is back".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    outage.back_after_ms = back.elapsed_ns() / 1_000_000;
    let mut read = |path: &str| -> Result<Value, Box<dyn Error>> {
        Ok(serde_json::from_str(&writer.get(path, &[HOST, ("authorization", &bearer())]).body)?)
    };
    for tenant in 0..tenants {
        let record = read(&format!("/admin/v1/quotas/tenant-{tenant}"))?;
        outage.lost += u64::from(record["overrides"][0]["requests"] != 100 + tenant);
    }
    outage.audit_is_whole = read("/admin/v1/audit/verify")?["ok"] == true;
    Ok(outage)
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| us as f64 / 1e3;
        let Outage { seconds, decisions, undecided, refused, back_after_ms, acknowledged, lost, .. } = self;
        let whole = if self.audit_is_whole { "whole" } else { "BROKEN" };
        write!(
            f,
            "PostgreSQL killed, and gone for {seconds:.0} s: {decisions} decisions, {undecided} of them not made, p50 {:.1} ms, p99 {:.1} ms; {refused} changes \
             refused; changes again {back_after_ms} ms after its start; of {acknowledged} changes acknowledged before, {lost} lost; the audit is {whole}.",
            ms(self.latencies_us.value_at_quantile(0.5)),
            ms(self.latencies_us.value_at_quantile(0.99)),
        )
    }
}
