//! Reservations in metrics: costs that are estimated before the work and known after it.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use tollgate::{ReservationStats, UnconfirmedStats};

use super::{counters, gauge, put};

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

/// Those of the store and those of the database together.
pub(super) fn both(one: &UnconfirmedStats, other: &UnconfirmedStats) -> UnconfirmedStats {
    UnconfirmedStats {
        waiting: one.waiting + other.waiting,
        kept: one.kept + other.kept,
        refused: one.refused + other.refused,
        lost: one.lost + other.lost,
        lost_booked_units: one.lost_booked_units.saturating_add(other.lost_booked_units),
        lost_returned_units: one.lost_returned_units.saturating_add(other.lost_returned_units),
    }
}

/// Settlements and bookings that a shared count has not confirmed at once.
pub(super) fn encode_unconfirmed(
    settlements: &UnconfirmedStats,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let UnconfirmedStats { waiting, kept, refused, lost, lost_booked_units, lost_returned_units } =
        *settlements;
    let help = "Settlements and bookings that the store has not confirmed, and that are being retried.";
    gauge(encoder, "ratelimit_unconfirmed_waiting", help, &waiting)?;
    let totals = [
        ("ratelimit_unconfirmed", "Settlements and bookings that the store did not confirm at once.", kept),
        (
            "ratelimit_unconfirmed_refused",
            "Those that the store refused later: the reservation was settled already, or had expired.",
            refused,
        ),
        ("ratelimit_unconfirmed_lost", "Those that were given up after ten minutes.", lost),
    ];
    for (name, help, value) in totals {
        counters(encoder, name, help)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    let help = "Units of those that were given up, by what was to be done with them.";
    let mut family = counters(encoder, "ratelimit_unconfirmed_lost_units", help)?;
    put(&mut family, &[("kind", "book")], lost_booked_units)?;
    put(&mut family, &[("kind", "return")], lost_returned_units)
}
