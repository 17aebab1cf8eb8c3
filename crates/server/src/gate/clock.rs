//! Following wall time: what a confirmed jump ends, and what operators learn of it.

use tollgate::Keeper;
use tollgate::clock::guard::{ClockEvent, ClockGuard};

use super::Gate;

const NS_PER_S: f64 = 1e9;

impl Gate {
    /// Looks at wall time, and follows it as far as it is confirmed. To be called every second or so.
    pub(crate) fn follow_wall_time(&self, guard: &mut ClockGuard) {
        let event = self.clock.follow_wall_time(guard, || self.end_before_jump());
        self.metrics.clock().set_unconfirmed(guard.unconfirmed_ns());
        let Some(event) = event else { return };
        self.metrics.clock().observe(event);
        match event {
            ClockEvent::Jumped { by_ns } => tracing::warn!(
                seconds = seconds(by_ns),
                "wall time has jumped: not followed until another clock confirms it, or it has stayed for `clock_jump_delay`"
            ),
            ClockEvent::CameBack => tracing::warn!("wall time is back where it was: nothing was changed"),
            ClockEvent::Followed { by_ns } => {
                for keeper in Keeper::ALL {
                    self.engine.reopen_leases(keeper);
                }
                self.forget_denials();
                tracing::warn!(
                    seconds = seconds(by_ns),
                    "followed a jump of wall time: windows are those of the new time"
                );
            }
            ClockEvent::Differs { by_ns } => tracing::warn!(
                seconds = seconds(by_ns),
                "the clock of the database or of Redis shows another time than this server's: set one of them right"
            ),
        }
    }

    /// Ends what has deadlines on the timeline that is about to jump: units in hand go back, and are leased anew after it.
    fn end_before_jump(&self) {
        for keeper in Keeper::ALL {
            self.engine.close_leases(keeper, self.clock.now());
        }
        self.ring();
    }
}

#[allow(clippy::cast_precision_loss)] // For people.
fn seconds(ns: i64) -> f64 {
    ns as f64 / NS_PER_S
}
