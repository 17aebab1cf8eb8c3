//! Whether units of a limit are leased: always, while its key is hot, or never.

use super::Reader;
use super::fields::Found;
use crate::problem::Problem;
use crate::rule::{Allowance, Consistency};

/// What a limit says about leases.
pub(super) struct LeaseAsked {
    pub(super) consistency: Found<Consistency>,
    pub(super) local_fraction: Found<u8>,
    pub(super) strict: Found<bool>,
    pub(super) lease_when_hot: Found<bool>,
    pub(super) durable: Found<bool>,
}

impl LeaseAsked {
    fn is_leased(&self) -> bool {
        self.consistency.given().is_some_and(|given| given.value == Consistency::Leased)
    }

    pub(super) fn is_durable(&self) -> bool {
        self.durable.given().is_some_and(|given| given.value)
    }

    fn is_leased_when_hot(&self) -> bool {
        self.lease_when_hot.given().is_some_and(|given| given.value)
    }
}

impl Reader<'_, '_> {
    /// Whether units are leased at times. Says so if the keys do not go together.
    pub(super) fn check_leasing(&mut self, asked: &LeaseAsked) -> bool {
        if asked.is_durable() {
            self.check_durable(asked);
            return true;
        }
        let is_hot = asked.lease_when_hot.given().filter(|given| given.value);
        if let (Some(hot), Some(consistency)) = (is_hot, asked.consistency.given())
            && consistency.value != Consistency::Exact
        {
            let (what, hint) = if asked.is_leased() {
                ("a limit that is always leased needs no `lease_when_hot`", "keep one of the two")
            } else {
                (
                    "`lease_when_hot` has no meaning for a count that is not shared",
                    "remove it, or write `consistency: exact`",
                )
            };
            let problem = Problem::new(self.page.position(hot.key_mark), what)
                .also(self.page.position(consistency.mark), "it is this");
            self.problems.push(problem.hint(hint));
        }
        let is_leased = asked.is_leased() || asked.is_leased_when_hot();
        if let Some(strict) = asked.strict.given().filter(|strict| strict.value && !is_leased) {
            let what = "`strict` has no meaning unless units are leased";
            self.wrong(
                strict.key_mark,
                what,
                "write `consistency: leased` or `lease_when_hot: true`, or remove it",
            );
        }
        is_leased
    }

    /// What is kept in the database is decided in one way only.
    fn check_durable(&mut self, asked: &LeaseAsked) {
        let Some(durable) = asked.durable.given() else { return };
        let others = [
            asked.consistency.given().map(|given| (given.key, given.key_mark)),
            asked.strict.given().map(|given| (given.key, given.key_mark)),
            asked.lease_when_hot.given().map(|given| (given.key, given.key_mark)),
        ];
        for (key, mark) in others.into_iter().flatten() {
            let what = format!("`{key}` has no meaning for a limit that is `durable`");
            let problem = Problem::new(self.page.position(mark), what)
                .also(self.page.position(durable.key_mark), "it is this")
                .hint(format!("remove `{key}`: the database decides, and is never exceeded"));
            self.problems.push(problem);
        }
    }

    /// Lets units be leased, where that is asked for. Whoever asks for it while a key is hot must be able to have it.
    pub(super) fn lease<'a>(
        &mut self,
        asked: &LeaseAsked,
        allowances: impl Iterator<Item = &'a mut Allowance>,
    ) {
        let local_percent = asked.local_fraction.given().map(|given| given.value);
        if asked.is_durable() {
            for allowance in allowances {
                if let Allowance::Quota(quota) = allowance {
                    quota.lease_durably(local_percent);
                }
            }
            return;
        }
        if !(asked.is_leased() || asked.is_leased_when_hot()) {
            return;
        }
        let is_strict = asked.strict.given().is_some_and(|given| given.value);
        let (mut counts, mut leases) = (false, false);
        for allowance in allowances {
            let Allowance::Quota(quota) = allowance else { continue };
            quota.lease(is_strict, local_percent);
            if let Some(terms) = &mut quota.leased {
                terms.when_hot = asked.is_leased_when_hot();
                leases = true;
            }
            // What lets nothing pass, and what cannot be shared, is another matter.
            counts |= quota.units > 0 && quota.shared.is_some();
        }
        if let Some(hot) = asked.lease_when_hot.given().filter(|given| given.value && counts && !leases) {
            let why = match local_percent {
                Some(0) => "remove it, or write a larger `local_fraction`: of nothing, nothing is leased",
                _ => {
                    "remove it: queues and limits on concurrency are always exact, and of a few units none is to spare"
                }
            };
            self.wrong(hot.key_mark, "this limit cannot be leased", why);
        }
    }
}
