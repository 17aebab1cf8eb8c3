//! A `rate_limit`: how much, how it is counted, and how it behaves.

use tollgate_core::CalendarUnit;

use super::Reader;
use super::allowance::{CALENDAR_UNITS, Shape};
use super::fields::{Fields, Found, Given};
use super::leasing::LeaseAsked;
use super::numbers::Numbers;
use crate::counting::{Counting, Named};
use crate::keys::{self, REPLACED, TIER};
use crate::problem::{Mark, Problem, quote};
use crate::rule::{Allowance, Consistency, DefaultAlgorithm, FailMode, Overshoot, Period, RuleLimit};
use crate::yaml::{Entry, Node};

/// A limit in the making: what is known before its algorithm is.
struct Draft {
    numbers: Numbers,
    named: Found<Named>,
    shape: Shape,
    jitter: Found<bool>,
    durable: Found<bool>,
    tiers: Vec<(String, Numbers)>,
}

impl Draft {
    fn is_durable(&self) -> bool {
        self.durable.given().is_some_and(|given| given.value)
    }
}

impl Reader<'_, '_> {
    /// The one limit of a mapping that holds the keys of a `rate_limit`.
    pub(super) fn limit(&mut self, fields: &Fields) -> Option<RuleLimit> {
        let draft = self.draft(fields);
        let allowance = self.check_draft(&draft).then(|| self.allowance_of(&draft, fields));
        let tiers = draft
            .tiers
            .iter()
            .filter_map(|(name, numbers)| Some((name.clone(), self.tier(&draft, numbers, name)?)));
        let tiers: Vec<_> = tiers.collect();

        let name = self.optional(fields, "name", Reader::name).value().filter(|name| !name.is_empty());
        let replaces = self.replaces(fields, name.as_deref());
        let overshoot = self.field(fields, "overshoot", |reader, entry| {
            reader.choice(entry, keys::OVERSHOOTS, &[Overshoot::Deny, Overshoot::Book])
        });
        let enforce_percent = self.field(fields, "enforce_percent", |reader, entry| {
            reader.whole_up_to(entry, 100).and_then(|number| u8::try_from(number).ok())
        });
        let consistency = self.field(fields, "consistency", |reader, entry| {
            let values = [Consistency::Local, Consistency::Exact, Consistency::Leased];
            reader.choice(entry, keys::CONSISTENCIES, &values)
        });
        let fail_mode = self.field(fields, "fail_mode", |reader, entry| {
            reader.choice(entry, keys::FAIL_MODES, &[FailMode::Open, FailMode::Closed, FailMode::Local])
        });
        let local_fraction = self.field(fields, "local_fraction", Reader::fraction);
        let strict = self.field(fields, "strict", Reader::boolean);
        let lease_when_hot = self.field(fields, "lease_when_hot", Reader::boolean);
        let durable = draft.durable;
        let asked = LeaseAsked { consistency, local_fraction, strict, lease_when_hot, durable };
        if !self.check_leasing(&asked) {
            self.check_fail_mode(&fail_mode, &asked.local_fraction);
        }
        let (mut allowance, mut tiers) = (allowance.flatten()?, tiers);
        self.lease(&asked, std::iter::once(&mut allowance).chain(tiers.iter_mut().map(|(_, tier)| tier)));
        let is_durable = asked.is_durable();
        let LeaseAsked { consistency, local_fraction, strict, lease_when_hot, .. } = asked;
        let allowances = std::iter::once(&allowance).chain(tiers.iter().map(|(_, allowance)| allowance));
        let shared = consistency.given().filter(|given| given.value != Consistency::Local);
        let kept = draft.durable.given().filter(|given| given.value);
        let asked_at = kept.map(|given| given.mark).or(shared.map(|given| given.mark));
        self.check_numbers_fit((asked_at, is_durable), allowances);
        let fail_mode_default = if is_durable { FailMode::Closed } else { FailMode::default() };
        Some(RuleLimit {
            name,
            replaces,
            allowance,
            tiers,
            overshoot: overshoot.value().unwrap_or_default(),
            enforce_percent: enforce_percent.value().unwrap_or(100),
            consistency: if is_durable { Some(Consistency::Durable) } else { consistency.value() },
            fail_mode: fail_mode.value().unwrap_or(fail_mode_default),
            local_percent: local_fraction.value(),
            strict: strict.value().unwrap_or_default(),
            counting: self.counting(&draft, lease_when_hot.value().unwrap_or_default()),
        })
    }

    /// What other numbers would be counted by.
    fn counting(&self, draft: &Draft, lease_when_hot: bool) -> Counting {
        let Numbers { units, period, burst, .. } = draft.numbers;
        let durably = draft.is_durable().then_some(Named::FixedWindow);
        Counting {
            named: draft.named.given().map(|given| given.value).or(durably),
            default: self.default_algorithm,
            how: draft.shape.how(),
            units: units.value(),
            period: period.value(),
            burst: burst.value(),
            lease_when_hot,
        }
    }

    fn draft(&mut self, fields: &Fields) -> Draft {
        let mut numbers = self.numbers(fields);
        let calendar = self.field(fields, "calendar", |reader, entry| {
            reader.choice(entry, keys::CALENDAR_UNITS, &CALENDAR_UNITS).map(Period::Calendar)
        });
        numbers.period = numbers.period.or(calendar);
        let named = self
            .field(fields, "algorithm", |reader, entry| reader.choice(entry, keys::ALGORITHMS, &Named::ALL));
        let jitter = self.field(fields, "jitter", Reader::boolean);
        let sub_windows = self.field(fields, "sub_windows", Reader::whole);
        let durable = self.field(fields, "durable", Reader::boolean);
        let anchor_day = self.field(fields, "anchor_day", Reader::day_of_month);
        let mut shape = Shape {
            algorithm: Named::SlidingWindow,
            zone: self.field(fields, "zone", Reader::text),
            anchor_day,
            sub_windows,
            max_wait: self.field(fields, "max_wait", Reader::duration),
            jitter: jitter.given().is_some_and(|given| given.value),
        };
        let is_durable = durable.given().is_some_and(|given| given.value);
        shape.algorithm = match named.given() {
            None if is_durable => Named::FixedWindow,
            _ => self.algorithm(&named, &numbers, &shape),
        };
        let tiers = self.tiers(fields);
        Draft { numbers, named, shape, jitter, durable, tiers }
    }

    /// The algorithm that is named, or that the other keys imply.
    fn algorithm(&self, named: &Found<Named>, numbers: &Numbers, shape: &Shape) -> Named {
        let is_calendar = numbers.period.given().is_some_and(|period| period.value.length().is_none());
        match named.given() {
            Some(given) => given.value,
            None if is_calendar => Named::FixedWindow,
            None if !numbers.burst.is_absent() => Named::TokenBucket,
            None if !shape.sub_windows.is_absent() => Named::SlidingWindow,
            None => match self.default_algorithm {
                DefaultAlgorithm::SlidingWindow => Named::SlidingWindow,
                DefaultAlgorithm::FixedWindow => Named::FixedWindow,
            },
        }
    }

    /// Whether the keys go together and the algorithm is known.
    fn check_draft(&mut self, draft: &Draft) -> bool {
        if matches!(draft.named, Found::Broken) {
            return false;
        }
        if draft.numbers.is_unlimited() && draft.tiers.is_empty() {
            return self.check_unlimited_shape(draft);
        }
        let shape = &draft.shape;
        let algorithm = shape.algorithm;
        let calendar = draft.numbers.period.given().filter(|period| period.value.length().is_none());
        let mut ok = self.check_burst(&draft.numbers, shape);
        if let (Some(durable), Some(named)) = (draft.durable.given(), draft.named.given())
            && draft.is_durable()
            && algorithm != Named::FixedWindow
        {
            let what = format!("the database counts by windows, not by a `{}`", algorithm.name());
            let problem = Problem::new(self.page.position(named.mark), what)
                .also(self.page.position(durable.key_mark), "it is kept there because of this")
                .hint("remove `algorithm`, or write `algorithm: fixed_window`; or remove `durable`");
            self.problems.push(problem);
            ok = false;
        }
        if let Some(anchor) = shape.anchor_day.given()
            && calendar.is_none_or(|calendar| calendar.value != Period::Calendar(CalendarUnit::Month))
        {
            let what = "`anchor_day` has no meaning without `calendar: month`";
            let hint = "write `calendar: month` instead of `unit` or `period`, or remove it";
            self.wrong(anchor.key_mark, what, hint);
            ok = false;
        }
        if let Some(wait) = shape.max_wait.given().filter(|_| algorithm != Named::LeakyBucket) {
            ok = self.misfit(wait, algorithm, "write `algorithm: leaky_bucket` for a queue, or remove it");
        }
        if let Some(count) = shape.sub_windows.given().filter(|_| algorithm != Named::SlidingWindow) {
            ok = self.misfit(count, algorithm, "write `algorithm: sliding_window`, or remove it");
        }
        if let (Some(calendar), Some(named)) = (calendar, draft.named.given())
            && algorithm != Named::FixedWindow
        {
            let what =
                format!("a `calendar` is counted by a `fixed_window`, not by a `{}`", algorithm.name());
            let hint = "remove `algorithm`; or count by a length of time, such as `period: 30d`";
            let problem = Problem::new(self.page.position(named.mark), what)
                .also(self.page.position(calendar.key_mark), "the calendar");
            self.problems.push(problem.hint(hint));
            ok = false;
        }
        if let Some(jitter) = draft.jitter.given().filter(|_| shape.jitter) {
            if !algorithm.has_windows() {
                ok = self.misfit(jitter, algorithm, "it moves where windows begin; remove it");
            } else if calendar.is_some() {
                let what = "`jitter` cannot move the days of a calendar";
                self.wrong(jitter.key_mark, what, "remove it, or count by `unit` or `period`");
                ok = false;
            }
        }
        if let Some(zone) = shape.zone.given().filter(|_| calendar.is_none()) {
            let what = "`zone` has no meaning without a `calendar`";
            self.wrong(
                zone.key_mark,
                what,
                "write `calendar: day` (or week, month) instead of `unit` or `period`",
            );
            ok = false;
        }
        ok
    }

    fn check_burst(&mut self, numbers: &Numbers, shape: &Shape) -> bool {
        let Some(burst) = numbers.burst.given() else { return true };
        if let Some(wait) = shape.max_wait.given().filter(|_| shape.algorithm == Named::LeakyBucket) {
            let problem = Problem::new(
                self.page.position(burst.key_mark),
                "a queue is bounded by `max_wait`, not by `burst`",
            )
            .also(self.page.position(wait.key_mark), "this makes it a queue")
            .hint("keep one of the two");
            self.problems.push(problem);
            return false;
        }
        if shape.algorithm.has_burst() {
            return true;
        }
        let hint = match shape.algorithm {
            Named::Concurrency => "remove it: `requests` says how many may be at it at once",
            _ if numbers.period.given().is_some_and(|period| period.value.length().is_none()) => {
                "remove it: all requests of a calendar's day, week or month may come at once"
            }
            _ => "remove it, or write `algorithm: token_bucket` in the `rate_limit`",
        };
        self.misfit(burst, shape.algorithm, hint)
    }

    fn misfit<T>(&mut self, given: &Given<T>, algorithm: Named, hint: &str) -> bool {
        let what = format!("`{}` has no meaning for a `{}`", given.key, algorithm.name());
        self.wrong(given.key_mark, what, hint);
        false
    }

    /// What is unlimited for everybody is not counted in any way.
    fn check_unlimited_shape(&mut self, draft: &Draft) -> bool {
        let shape = &draft.shape;
        let marks = [
            draft.named.given().map(|given| (given.key, given.key_mark)),
            shape.zone.given().map(|given| (given.key, given.key_mark)),
            shape.anchor_day.given().map(|given| (given.key, given.key_mark)),
            draft.durable.given().map(|given| (given.key, given.key_mark)),
            shape.sub_windows.given().map(|given| (given.key, given.key_mark)),
            shape.max_wait.given().map(|given| (given.key, given.key_mark)),
            draft.jitter.given().map(|given| (given.key, given.key_mark)),
        ];
        for (key, mark) in marks.into_iter().flatten() {
            let what = format!("`{key}` has no meaning where `unlimited` is true");
            self.wrong(mark, what, format!("remove `{key}`, or remove `unlimited`"));
        }
        true
    }

    /// Whoever asks for a count that others share must be able to have one. The mark is where that is asked for.
    fn check_numbers_fit<'a>(
        &mut self,
        (mark, is_durable): (Option<Mark>, bool),
        mut allowances: impl Iterator<Item = &'a Allowance>,
    ) {
        let Some(mark) = mark else { return };
        let cannot = |allowance: &Allowance| matches!(allowance, Allowance::Quota(quota) if quota.shared.is_none() && quota.units > 0);
        if allowances.any(cannot) {
            let what = "these numbers are too large for a count that is shared";
            let hint = if is_durable {
                "write smaller numbers: a window may have 2^45 units (about 35 trillion)"
            } else {
                "write `consistency: local`, or smaller numbers: a shared count can tell apart 2^53 \
                 (about 9 quadrillion) unit-seconds"
            };
            self.wrong(mark, what, hint);
        }
    }

    fn check_fail_mode(&mut self, fail_mode: &Found<FailMode>, local_fraction: &Found<u8>) {
        if let (Some(mode), Some(fraction)) = (fail_mode.given(), local_fraction.given())
            && mode.value != FailMode::Local
        {
            let problem = Problem::new(
                self.page.position(fraction.key_mark),
                "`local_fraction` has no meaning unless `fail_mode` is `local`",
            )
            .also(self.page.position(mode.mark), "it is this");
            self.problems.push(problem.hint("remove it, or write `fail_mode: local`"));
        }
    }

    fn allowance_of(&mut self, draft: &Draft, fields: &Fields) -> Option<Allowance> {
        let mut numbers = draft.numbers;
        // What was given under a wrong name is not missing.
        if numbers.units.is_absent() && !(fields.lacks("requests_per_unit") && fields.lacks("requests")) {
            numbers.units = Found::Broken;
        }
        if numbers.period.is_absent() && !(fields.lacks("unit") && fields.lacks("period")) {
            numbers.period = Found::Broken;
        }
        self.allowance(&numbers, &draft.shape, fields.table.title)
    }

    fn tiers(&mut self, fields: &Fields) -> Vec<(String, Numbers)> {
        let example = "`tiers: {free: {requests: 100}, pro: {requests: 1000}}`";
        let entries = self.field(fields, "tiers", |reader, entry| reader.map(entry, example)).value();
        let mut tiers = Vec::new();
        for entry in entries.iter().flat_map(|entries| entries.iter()) {
            self.tiers_seen.entry(entry.key.as_ref().to_owned()).or_insert(entry.key_mark);
            if entry.key.is_empty() {
                self.wrong(entry.key_mark, "a tier needs a name", "write `free: {requests: 100}`");
            }
            let Some(fields) = self.fields(&entry.value, &TIER, entry.key_mark) else { continue };
            if fields.entries().is_empty() {
                let what = format!("the tier {} says nothing", quote(&entry.key));
                self.wrong(
                    entry.key_mark,
                    what,
                    "give it numbers of its own, such as `requests: 100`, or `unlimited: true`",
                );
                continue;
            }
            tiers.push((entry.key.as_ref().to_owned(), self.numbers(&fields)));
        }
        tiers
    }

    /// A tier's numbers, with those of the limit around it where it is silent.
    fn tier(&mut self, draft: &Draft, numbers: &Numbers, name: &str) -> Option<Allowance> {
        if matches!(draft.named, Found::Broken) {
            return None;
        }
        let numbers = numbers.within(&draft.numbers);
        // A limit that counts nothing by itself implies no algorithm; the tier does.
        let algorithm = if draft.numbers.counts_nothing() && !draft.is_durable() {
            self.algorithm(&draft.named, &numbers, &draft.shape)
        } else {
            draft.shape.algorithm
        };
        let shape = Shape {
            algorithm,
            zone: draft.shape.zone.clone(),
            anchor_day: draft.shape.anchor_day,
            sub_windows: draft.shape.sub_windows,
            max_wait: draft.shape.max_wait,
            jitter: draft.shape.jitter,
        };
        if !numbers.is_unlimited() && !self.check_burst(&numbers, &shape) {
            return None;
        }
        self.allowance(&numbers, &shape, &format!("the tier {}", quote(name)))
    }

    fn replaces(&mut self, fields: &Fields, own_name: Option<&str>) -> Vec<String> {
        let items = self.optional(fields, "replaces", Reader::list).value();
        let mut names = Vec::new();
        for item in items.iter().flat_map(|items| items.iter()) {
            names.extend(self.replaced(item, own_name));
        }
        names
    }

    fn replaced(&mut self, item: &Node, own_name: Option<&str>) -> Option<String> {
        let fields = self.fields(item, &REPLACED, item.mark)?;
        let hint = "name the limit that is dropped: `- name: NAME`";
        if fields.lacks("name") {
            self.wrong(fields.mark, "an entry of `replaces` lacks `name`", hint);
        }
        let is_empty = |entry: &Entry| entry.value.is_null();
        if let Some(entry) = fields.entry("name").filter(|entry| is_empty(entry)) {
            self.wrong(entry.key_mark, "`name` has no value", hint);
            return None;
        }
        let name = self.field(&fields, "name", Reader::name);
        let given = name.given()?;
        let mark: Mark = given.mark;
        if given.value.is_empty() {
            self.wrong(mark, "the name of a replaced limit is empty", hint);
            return None;
        }
        if Some(given.value.as_str()) == own_name {
            self.wrong(
                mark,
                format!("a limit cannot replace itself: {} is its own name", quote(&given.value)),
                "name another limit, or remove the entry",
            );
            return None;
        }
        name.value()
    }
}
