//! Request ids in metrics: by which callers repeat requests without a second charge.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use tollgate::RequestIdStats;

use super::{counters, gauge};

pub(super) fn encode(ids: &RequestIdStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let RequestIdStats { held, bytes, repeated, conflicts, refused } = *ids;
    let help = "Request ids that this process remembers, one for each counter that was charged.";
    gauge(encoder, "ratelimit_request_ids_held", help, &(held as u64))?;
    gauge(encoder, "ratelimit_request_ids_bytes", "Memory of remembered request ids.", &(bytes as u64))?;
    let totals = [
        ("ratelimit_request_ids_repeated", "Requests that were charged before under their id.", repeated),
        ("ratelimit_request_ids_conflicts", "Requests that came with the id of another request.", conflicts),
        (
            "ratelimit_request_ids_refused",
            "Requests that were refused because too many request ids were remembered.",
            refused,
        ),
    ];
    for (name, help, value) in totals {
        counters(encoder, name, help)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    Ok(())
}
