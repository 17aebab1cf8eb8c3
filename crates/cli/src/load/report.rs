//! What a run has shown, for people and for scripts.

use std::fmt::Write;

use serde_json::{Value, json};
use tollgate_load::{Load, Pace, Progress, Protocol, Report};

/// Which latencies are told.
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];
/// From here on, being late is worth a word.
const LAG_NS_NOTABLE: u64 = 1_000_000;

/// One line a second.
pub(super) fn line(progress: &Progress<'_>, ended_before: u64) -> String {
    let tally = progress.tally;
    format!(
        "{:>5.0} s  {:>9} answered/s  p50 {:>9}  p99 {:>9}  allowed {}  denied {}  errors {}",
        progress.elapsed.as_secs_f64(),
        tally.ended().saturating_sub(ended_before),
        time(tally.latency_ns.value_at_quantile(0.5)),
        time(tally.latency_ns.value_at_quantile(0.99)),
        tally.allowed,
        tally.denied,
        tally.errors,
    )
}

/// The whole report.
pub(super) fn table(load: &Load, report: &Report) -> String {
    let tally = &report.tally;
    let mut text = format!("{}\n\n", heading(load));
    let mut row = |name: &str, cells: [String; QUANTILES.len()]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>11}")).collect();
        let _ = writeln!(text, "{name:<9}{}", cells.concat()); // A String takes everything.
    };
    row("", QUANTILES.map(|(name, _)| name.to_owned()));
    row("latency", QUANTILES.map(|(_, quantile)| time(tally.latency_ns.value_at_quantile(quantile))));
    if load.pace != Pace::Max {
        row("send lag", QUANTILES.map(|(_, quantile)| time(tally.lag_ns.value_at_quantile(quantile))));
    }
    text.push('\n');
    let mut count = |name: &str, count: u64, more: &str| {
        let _ = writeln!(text, "{name:<9}{count:>11}{more}");
    };
    count("sent", tally.sent, "");
    count("answered", tally.ended(), &format!("  {:.0}/s", per_second(report)));
    count("allowed", tally.allowed, "");
    count("denied", tally.denied, "");
    let first_error = tally.first_error.as_ref().map(|error| format!("  {error}")).unwrap_or_default();
    count("errors", tally.errors, &first_error);
    if tally.unanswered > 0 {
        count("no answer", tally.unanswered, "  still under way at the end; counted as late as they were");
    }
    if tally.unsent > 0 {
        count("not sent", tally.unsent, "  due, but too many were under way; counted as late as they were");
    }
    text.push_str(&remark(load, report));
    text
}

fn heading(load: &Load) -> String {
    let Load { protocol, address, connections, .. } = load;
    let pace = match load.pace {
        Pace::Max => "as fast as answers come; latencies count from sending".to_owned(),
        Pace::Planned { per_second, .. } => format!("{per_second}/s planned; latencies count from the plan"),
    };
    let in_flight = if *protocol == Protocol::Http { 1 } else { load.in_flight };
    let plural = if *connections == 1 { "" } else { "s" };
    format!(
        "{protocol} at {address}: {pace}; {connections} connection{plural}, {in_flight} in flight on each; {} keys",
        load.keys.count
    )
}

/// What a reader should know before believing the figures.
fn remark(load: &Load, report: &Report) -> String {
    let lag_ns = report.tally.lag_ns.value_at_quantile(0.99);
    if load.pace == Pace::Max || lag_ns < LAG_NS_NOTABLE {
        return String::new();
    }
    format!(
        "\nOne request in a hundred was sent {} after its planned moment or later. Either all that may be under way was (--connections,\n\
         --in-flight), because the server does not keep up, or this machine cannot send so fast. Latencies include it.\n",
        time(lag_ns)
    )
}

/// The report for scripts.
pub(super) fn json(load: &Load, report: &Report) -> Value {
    let tally = &report.tally;
    let rate = match load.pace {
        Pace::Max => json!("max"),
        Pace::Planned { per_second, .. } => json!(per_second),
    };
    let quantiles = |value: &dyn Fn(f64) -> u64| {
        let told = QUANTILES.map(|(name, quantile)| (name.to_owned(), json!(microseconds(value(quantile)))));
        Value::Object(told.into_iter().collect())
    };
    json!({
        "protocol": load.protocol.to_string(),
        "address": load.address,
        "rate": rate,
        "elapsed_s": report.elapsed.as_secs_f64(),
        "sent": tally.sent,
        "answered": tally.ended(),
        "answered_per_s": per_second(report),
        "allowed": tally.allowed,
        "denied": tally.denied,
        "errors": tally.errors,
        "unanswered": tally.unanswered,
        "unsent": tally.unsent,
        "first_error": tally.first_error,
        "latency_us": quantiles(&|quantile| tally.latency_ns.value_at_quantile(quantile)),
        "send_lag_us": quantiles(&|quantile| tally.lag_ns.value_at_quantile(quantile)),
    })
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn per_second(report: &Report) -> f64 {
    let elapsed_s = report.elapsed.as_secs_f64();
    if elapsed_s > 0.0 { report.tally.ended() as f64 / elapsed_s } else { 0.0 }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// A length of time with three digits.
fn time(nanoseconds: u64) -> String {
    let us = microseconds(nanoseconds);
    let (figure, unit) = match nanoseconds {
        0..1_000_000 => (us, "us"),
        1_000_000..1_000_000_000 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    let decimals = if figure < 10.0 { 2 } else { usize::from(figure < 100.0) };
    format!("{figure:.decimals$} {unit}")
}

#[cfg(test)]
mod tests;
