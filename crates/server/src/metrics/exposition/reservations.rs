//! Reservations in metrics: costs that are estimated before the work and known after it.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use tollgate::ReservationStats;

use super::{counters, gauge};

pub(super) fn encode(reservations: &ReservationStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let ReservationStats { open, bytes, made, settled, settled_elsewhere, .. } = *reservations;
    let ReservationStats { expired, refused, returned_units, booked_units, .. } = *reservations;
    gauge(encoder, "ratelimit_reservations_open", "Reservations that are not settled yet.", &(open as u64))?;
    gauge(encoder, "ratelimit_reservations_bytes", "Memory of open reservations.", &(bytes as u64))?;
    let totals = [
        ("ratelimit_reservations_made", "Estimates that were reserved.", made),
        ("ratelimit_reservations_settled", "Reservations of this process that were settled.", settled),
        (
            "ratelimit_reservations_settled_elsewhere",
            "Reservations of other processes that were settled by this one.",
            settled_elsewhere,
        ),
        (
            "ratelimit_reservations_expired",
            "Reservations that nobody settled in time, and whose estimates stay charged.",
            expired,
        ),
        (
            "ratelimit_reservations_refused",
            "Reservations that were not made because too many were open.",
            refused,
        ),
        ("ratelimit_reservation_returned_units", "Units of estimates that were given back.", returned_units),
        ("ratelimit_reservation_booked_units", "Units that were booked beyond estimates.", booked_units),
    ];
    for (name, help, value) in totals {
        counters(encoder, name, help)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    Ok(())
}
