//! The limits of the admin API itself: what it does costs more than a decision, and whoever tries tokens is to be slow.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate::core::{Ask, Cost, Limit, LimitError, Rate, Span, State, Tick, Time, TokenBucket};

const SECOND: Duration = Duration::from_secs(1);
/// So many wrong tokens a second are refused as such; of those beyond, nothing is said.
const WRONG: AdminRate = AdminRate { per_second: 5, burst: 20 };
/// More names than there can be tokens: those of tokens that are gone make room.
const NAMES_MAX: usize = 1_024;
const PER_SECOND_MAX: u32 = 1_000_000;

/// How many requests the admin API takes of each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminRate {
    /// Requests a second.
    pub per_second: u32,
    /// So many at once.
    pub burst: u32,
}

impl Default for AdminRate {
    fn default() -> AdminRate {
        AdminRate { per_second: 50, burst: 200 }
    }
}

impl FromStr for AdminRate {
    type Err = ();

    /// `50/s`, or `50/s:200` with a burst.
    fn from_str(text: &str) -> Result<AdminRate, ()> {
        let (rate, burst) = text.split_once(':').map_or((text, None), |(rate, burst)| (rate, Some(burst)));
        let number = |text: &str| {
            text.trim().parse().ok().filter(|number| (1..=PER_SECOND_MAX).contains(number)).ok_or(())
        };
        let per_second = number(rate.trim().strip_suffix("/s").ok_or(())?)?;
        let burst = burst.map_or(Ok(per_second.saturating_mul(4)), number)?;
        Ok(AdminRate { per_second, burst })
    }
}

impl AdminRate {
    pub(crate) fn limit(self) -> Result<Limit, LimitError> {
        let rate = Rate::new(u64::from(self.per_second), Tick::NANOSECOND.span(SECOND)?)?;
        Ok(Limit::from(TokenBucket::new(rate, u64::from(self.burst))?))
    }
}

/// What has been asked, by whose name; and how often a wrong token was shown.
#[derive(Debug)]
pub(super) struct Rates {
    /// Nothing, where there is no limit.
    limit: Option<Limit>,
    by_name: Mutex<HashMap<Arc<str>, State>>,
    wrong_limit: Limit,
    wrong: Mutex<State>,
}

impl Rates {
    pub(super) fn new(rate: Option<AdminRate>) -> Result<Rates, LimitError> {
        let wrong_limit = WRONG.limit()?;
        Ok(Rates {
            limit: rate.map(AdminRate::limit).transpose()?,
            by_name: Mutex::default(),
            wrong: Mutex::new(wrong_limit.fresh()),
            wrong_limit,
        })
    }

    /// Counts a request of this name. An error says how long it has to wait.
    pub(super) fn ask(&self, name: &Arc<str>, now: Time) -> Result<(), Span> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let mut states = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if states.len() >= NAMES_MAX {
            states.retain(|_, state| limit.expires_at(state) > now);
        }
        take(limit, states.entry(Arc::clone(name)).or_insert_with(|| limit.fresh()), now)
    }

    /// Counts a wrong token. An error says how long nothing more is said about them.
    pub(super) fn ask_wrongly(&self, now: Time) -> Result<(), Span> {
        take(&self.wrong_limit, &mut self.wrong.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

fn take(limit: &Limit, state: &mut State, now: Time) -> Result<(), Span> {
    let decision = limit.decide(state, Ask::take(Cost::ONE, now));
    if decision.is_allowed() { Ok(()) } else { Err(decision.retry_after().unwrap_or(Span::ZERO)) }
}
