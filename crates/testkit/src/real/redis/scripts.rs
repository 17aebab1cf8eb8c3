//! The algorithms' twins on a real Redis, played to the suite with made-up time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tollgate_core::{
    Answer, Ask, CallKey, CallWriter, Cost, Decision, Intent, LeaseRest, Limit, Outcome, Refund, Script,
    SettleOnce, SharedLimit, Span, State, Tick, Time, Verb,
};

use super::client::{RedisClient, Reply};
use crate::subject::Subject;

/// By how much a key outlives its state at least and at most where time is made up: a minute, since that time does not pass, and a little.
const OUTLIVES_MS: (u64, u64) = (60_000, 60_101);

/// What one key is asked in one call.
#[derive(Clone, Debug)]
pub struct Counter<'a> {
    /// The key in Redis.
    pub key: &'a [u8],
    /// Its limit.
    pub limit: &'a SharedLimit,
    /// What its jitter comes from.
    pub key_hash: u64,
    /// The boundaries of a calendar are those around this moment, in ticks.
    pub around: Time,
    /// Verb, units, and a moment or a holder.
    pub asks: &'a [(Verb, u64, u64)],
}

/// A connection on which scripts are called.
#[derive(Debug)]
pub struct ScriptCaller {
    client: RedisClient,
    digests: HashMap<&'static str, String>,
    namespaces: u64,
}

impl ScriptCaller {
    /// Loads all scripts.
    pub fn new(mut client: RedisClient) -> ScriptCaller {
        let load = |script: &&'static Script| {
            let digest = client.command(&[b"SCRIPT", b"LOAD", script.text.as_bytes()]).text();
            (script.name, digest)
        };
        let digests = Script::all().iter().map(load).collect();
        ScriptCaller { client, digests, namespaces: 0 }
    }

    /// The connection itself.
    pub fn client(&mut self) -> &mut RedisClient {
        &mut self.client
    }

    /// The arguments of a call, the name of the command first. All counters must have limits of one algorithm.
    pub fn arguments(&self, now_us: Option<u64>, counters: &[Counter<'_>]) -> Vec<Vec<u8>> {
        let script = counters[0].limit.script().expect("a limit that is asked about");
        let mut arguments = vec![b"EVALSHA".to_vec(), self.digests[script.name].clone().into_bytes()];
        arguments.push(counters.len().to_string().into_bytes());
        arguments.extend(counters.iter().map(|counter| counter.key.to_vec()));
        // Two digits at least: a single zero asks for the time of Redis.
        arguments.push(now_us.map_or("0".to_owned(), |now_us| format!("{now_us:02}")).into_bytes());
        let mut writer = CallWriter::default();
        for &Counter { limit, key_hash: hash, around, asks, .. } in counters {
            let mut put = |number: i64| arguments.push(number.to_string().into_bytes());
            writer.key(CallKey { limit, hash, around }, asks.len(), &mut put);
            for &ask in asks {
                CallWriter::ask(limit, ask, &mut put);
            }
        }
        arguments.push(Script::END.into());
        arguments
    }

    /// Asks one thing of one key, or gives back what is left of a lease, and gives the four numbers of the answer. The caller believes that it is another time
    /// than Redis does, if the two differ.
    pub fn call_mixed(
        &mut self,
        (now_us, believed_us): (u64, u64),
        key: &[u8],
        limit: &SharedLimit,
        ask: Result<(Verb, u64, u64), LeaseRest>,
    ) -> [i64; 4] {
        let asks = ask.ok();
        let around = Time::from_ticks(believed_us);
        let counter = Counter { key, limit, key_hash: 0, around, asks: asks.as_slice() };
        let mut arguments = self.arguments(Some(now_us), &[counter]);
        if let Err(rest) = ask {
            add_ask(&mut arguments, |put| CallWriter::give_back_lease(limit, rest, put));
        }
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        numbers(&self.client.command(&arguments))[0]
    }

    /// Settles a reservation of one key, and gives the four numbers of the answer.
    pub fn settle(&mut self, now_us: u64, key: &[u8], limit: &SharedLimit, settle: SettleOnce) -> [i64; 4] {
        let counter = Counter { key, limit, key_hash: 0, around: Time::from_ticks(now_us), asks: &[] };
        let mut arguments = self.arguments(Some(now_us), &[counter]);
        add_ask(&mut arguments, |put| CallWriter::settle(limit, settle, put));
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        numbers(&self.client.command(&arguments))[0]
    }

    /// Asks one thing of one key for the id of a request: a number, and what it is bound to.
    pub fn once(
        &mut self,
        now_us: u64,
        limit: &SharedLimit,
        ask: (Verb, u64, u64),
        id: [u64; 2],
    ) -> [i64; 4] {
        let around = Time::from_ticks(now_us);
        let counter = Counter { key: b"key", limit, key_hash: 0, around, asks: &[] };
        let mut arguments = self.arguments(Some(now_us), &[counter]);
        add_ask(&mut arguments, |put| CallWriter::once(limit, ask, id, put));
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        numbers(&self.client.command(&arguments))[0]
    }

    /// Calls a script, and gives its four numbers for every ask.
    pub fn call(&mut self, now_us: Option<u64>, counters: &[Counter<'_>]) -> Vec<[i64; 4]> {
        let arguments = self.arguments(now_us, counters);
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        numbers(&self.client.command(&arguments))
    }
}

/// Adds an ask to a call of one key that has none yet.
fn add_ask(arguments: &mut Vec<Vec<u8>>, write: impl FnOnce(&mut dyn FnMut(i64))) {
    let end = arguments.pop();
    let count = arguments.iter().position(|argument| argument == b"0").expect("no asks yet");
    arguments[count] = b"1".to_vec();
    write(&mut |number| arguments.push(number.to_string().into_bytes()));
    arguments.extend(end);
}

/// The four numbers for every ask in a script's reply.
fn numbers(reply: &Reply) -> Vec<[i64; 4]> {
    let Reply::Array(parts) = reply else { panic!("not an answer: {reply:?}") };
    let numbers: Vec<i64> = parts.iter().map(Reply::integer).collect();
    let (answers, rest) = numbers[2..].as_chunks();
    assert!(rest.is_empty(), "half an answer: {reply:?}");
    answers.to_vec()
}

/// What a call has answered, and when the key expires after it: all by the clock of Redis.
#[derive(Debug)]
struct Seen {
    answer: [i64; 4],
    called_at_ms: u64,
    looked_at_ms: u64,
    /// None if there is no such key.
    expires_at_ms: Option<u64>,
}

impl ScriptCaller {
    fn call_and_look(&mut self, now_us: u64, counter: &Counter<'_>) -> Seen {
        let arguments = self.arguments(Some(now_us), std::slice::from_ref(counter));
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let commands: [&[&[u8]]; 4] = [&[b"TIME"], &arguments, &[b"PEXPIRETIME", counter.key], &[b"TIME"]];
        for command in commands {
            self.client.send(command).expect("a connection");
        }
        let [called_at, reply, expiry, looked_at] =
            commands.map(|_| self.client.receive().expect("an answer"));
        assert_ne!(expiry, Reply::Integer(-1), "a key without an expiry: {arguments:?}");
        Seen {
            answer: numbers(&reply)[0],
            called_at_ms: millis(&called_at),
            looked_at_ms: millis(&looked_at),
            expires_at_ms: u64::try_from(expiry.integer()).ok(),
        }
    }
}

impl Seen {
    /// A key lives as long as its state, and a little longer; it is gone where it has none.
    fn check_expiry(&self, left_ms: u64, may_stay: bool) -> Result<(), String> {
        let earliest = self.called_at_ms + OUTLIVES_MS.0 + left_ms;
        let latest = self.looked_at_ms + OUTLIVES_MS.1 + left_ms;
        match self.expires_at_ms {
            None if left_ms > 0 => Err("forgotten".to_owned()),
            Some(_) if left_ms == 0 && !may_stay => Err("kept without a reason".to_owned()),
            Some(ms) if left_ms > 0 && ms < earliest => Err(format!("{} ms too early", earliest - ms)),
            Some(ms) if ms > latest && !may_stay => Err(format!("{} ms too late", ms - latest)),
            _ => Ok(()),
        }
    }
}

/// A limit that is played on Redis. Every key is also looked at: it must expire when its state in `core` does, and be gone where that
/// equals a key never seen.
#[derive(Debug)]
pub struct Scripts {
    caller: Rc<RefCell<ScriptCaller>>,
    namespace: u64,
    tick: Tick,
    limit: Option<SharedLimit>,
    states: HashMap<Vec<u8>, State>,
}

/// What is done to one key.
#[derive(Clone, Copy, Debug)]
struct Deed<'a> {
    key: &'a [u8],
    limit: &'a Limit,
    ask: (Verb, u64, u64),
    now: Time,
}

impl Scripts {
    /// On keys that nobody has used.
    pub fn new(caller: &Rc<RefCell<ScriptCaller>>, tick: Tick) -> Scripts {
        let mut counting = caller.borrow_mut();
        counting.namespaces += 1;
        let namespace = counting.namespaces;
        Scripts { caller: Rc::clone(caller), namespace, tick, limit: None, states: HashMap::new() }
    }

    /// Answers a question, and gives with it the answer of `core`. Time may have stepped back since the last one.
    pub fn decide_beside_core(&mut self, key: &[u8], limit: &Limit, ask: Ask) -> [Decision; 2] {
        let verb = match ask.intent {
            Intent::Peek => Verb::Peek,
            Intent::Take => Verb::Take,
            Intent::Book => Verb::Book,
        };
        let deed = Deed { key, limit, ask: (verb, ask.cost.units(), 0), now: ask.now };
        let mut expected = None;
        let got = self.act(deed, |state| expected = Some(limit.decide(state, ask)));
        [got, expected.expect("core answers")]
    }

    fn act(&mut self, deed: Deed<'_>, in_core: impl FnOnce(&mut State)) -> Decision {
        let Deed { key, limit, ask, now } = deed;
        let state = self.states.entry(key.to_vec()).or_insert_with(|| limit.fresh());
        let before = state.clone();
        in_core(state);
        let expires_at = limit.expires_at(state);
        // What had expired before and is still of no use may be left as it was.
        let changed = *state != before && limit.expires_at(&before).max(expires_at) > now;
        if *state != before && expires_at <= now {
            *state = limit.fresh(); // What is not written is not deleted either.
        }
        let tick = self.tick;
        let shared = self.limit.get_or_insert_with(|| {
            SharedLimit::in_ticks(limit.clone(), tick).expect("whoever makes the subject has tried")
        });
        if shared.script().is_none() {
            return limit.decide(&mut limit.fresh(), Ask::take(Cost::new(ask.1), now));
        }
        let stored_key = [self.namespace.to_string().as_bytes(), b":", key].concat();
        let counter = Counter { key: &stored_key, limit: shared, key_hash: 0, around: now, asks: &[ask] };
        // Anywhere within the tick.
        let now_us = now.ticks() * tick.length_us() + now.ticks() % tick.length_us();
        let seen = self.caller.borrow_mut().call_and_look(now_us, &counter);
        if changed {
            // A concurrency limit may remember a number; and what is given back may not matter any more, and is left as it was.
            let may_stay = matches!(limit, Limit::Concurrency(_)) || ask.0 == Verb::GiveBack;
            let left_us = expires_at.since(now).ticks() * tick.length_us();
            let checked = seen.check_expiry(left_us.div_ceil(1_000), may_stay);
            checked.unwrap_or_else(|wrong| panic!("expiry of {before:?}, {deed:?}: {wrong}"));
        }
        match shared.answer(seen.answer) {
            Some(Answer::Decided { decision, .. }) => in_ticks(decision, tick),
            _ => panic!("{deed:?} is answered with {seen:?}"),
        }
    }
}

fn millis(time: &Reply) -> u64 {
    let Reply::Array(parts) = time else { panic!("not a time: {time:?}") };
    let [seconds, micros] = [&parts[0], &parts[1]].map(|part| part.text().parse::<u64>().expect("a number"));
    seconds * 1_000 + micros / 1_000
}

fn in_ticks(decision: Decision, tick: Tick) -> Decision {
    let ticks = |span: Span| {
        assert_eq!(span.ticks() % tick.length_ns(), 0, "part of a tick");
        Span::from_ticks(span.ticks() / tick.length_ns())
    };
    let outcome = match decision.outcome {
        Outcome::Allowed { wait } => Outcome::Allowed { wait: ticks(wait) },
        Outcome::NotNow { retry_after } => Outcome::NotNow { retry_after: ticks(retry_after) },
        other => other,
    };
    Decision { outcome, reset_after: decision.reset_after.map(ticks), ..decision }
}

impl Subject for Scripts {
    fn decide(&mut self, key: &[u8], limit: &Limit, ask: Ask) -> Decision {
        self.decide_beside_core(key, limit, ask)[0]
    }

    fn give_back(&mut self, key: &[u8], limit: &Limit, refund: Refund) {
        let shared = SharedLimit::in_ticks(limit.clone(), self.tick).expect("a limit that is shared");
        let moment = shared.refund_moment(refund.counted_at, refund.undoes);
        let ask = (Verb::GiveBack, refund.units, moment);
        self.act(Deed { key, limit, ask, now: refund.now }, |state| limit.give_back(state, refund));
    }
}
