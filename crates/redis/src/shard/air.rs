//! What of one shard is in the air, on one connection.
//!
//! Replies come in the order of their commands, so what each one answers is known by its place. A call that was certainly not carried
//! out (the script is not loaded, the window is not known, the key has moved) flies again or goes elsewhere; its key stays in
//! the air meanwhile, so nothing overtakes it. Everything else that is not an answer is a failure, for good: what was sent and not
//! answered may have been done.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;
use tollgate_core::{CallWriter, Script, Time};
use tollgate_store::authority::debts::Debt;
use tollgate_store::authority::queue::{Flight, FlightLimits, List};
use tollgate_store::authority::{Act, Failure, Question};

use super::State;
use super::verdict::{Redirect, Verdict};
use crate::connection::{Broken, error_code};
use crate::fleet::{Fleet, Learnt};
use crate::script::{self, Digests};
use crate::ticket::{Delivery, Ticket};
use crate::topology::Moved;
use crate::wire::{Arguments, Commands, Reply};

/// How many flights may be in the air at once: while one is being answered, the next is on its way.
const FLIGHTS_MAX: usize = 4;
/// How much one of them carries: some 8 KiB. Redis reads 16 KiB at a time and answers what it has read, so that the first flight is back while
/// the last is still being worked at.
const LIMITS: FlightLimits = FlightLimits { keys_max: 64, asks_max: 1_024 };
/// How often a call that was not carried out may fly again.
const TRIES_MAX: u8 = 4;

/// What is in the air.
pub(super) struct Air {
    flights: [Option<Flying>; FLIGHTS_MAX],
    /// What the next replies answer.
    expected: VecDeque<Expected>,
    /// Calls that were not carried out, and fly again.
    again: Vec<Call>,
    /// What another shard has to do.
    pub(super) moved: Vec<Moved>,
    /// The names under which Redis knows the scripts.
    digests: Digests,
    /// Room for the arguments of a call, and what writes them.
    arguments: Arguments,
    writer: CallWriter,
}

/// Who is concerned by what happens in the air, and when it happens.
pub(super) struct Ground<'a> {
    pub(super) shard: &'a str,
    pub(super) fleet: &'a Fleet,
    pub(super) state: &'a mut State,
    pub(super) now: Time,
}

struct Flying {
    flight: Flight<Ticket>,
    /// How many of its calls are not answered.
    unanswered: usize,
    departed: Time,
}

/// One script, called for some lists of a flight.
struct Call {
    flight: usize,
    lists: Range<usize>,
    manner: Manner,
}

#[derive(Clone, Copy, Default)]
struct Manner {
    /// With the whole text of the script, which Redis did not know by its name.
    is_by_text: bool,
    /// For which time the windows of a calendar are told, if not for our own.
    around: Option<Time>,
    tries: u8,
}

enum Expected {
    Call(Call),
    /// What only has to be said.
    Nothing,
    /// Whoever has other business with this shard.
    Plain(oneshot::Sender<Reply>),
}

impl Air {
    /// Nothing yet, on a connection that knows the scripts by these names.
    pub(super) fn new(digests: Digests) -> Air {
        Air {
            flights: [const { None }; FLIGHTS_MAX],
            expected: VecDeque::new(),
            again: Vec::new(),
            moved: Vec::new(),
            digests,
            arguments: Arguments::default(),
            writer: CallWriter::default(),
        }
    }

    /// Whether there is nothing that could take off.
    pub(super) fn is_idle(&self, state: &State) -> bool {
        self.again.is_empty() && state.plain.is_empty() && state.queue.waiting() == 0
    }

    /// Lets everything fly that may.
    pub(super) fn take_off(&mut self, ground: &mut Ground<'_>, outgoing: &mut Commands) {
        let was_empty = self.expected.is_empty();
        for call in std::mem::take(&mut self.again) {
            self.call(call, ground, outgoing);
        }
        while let Some((command, reply)) = ground.state.plain.pop_front() {
            outgoing.append(&command);
            self.expected.push_back(Expected::Plain(reply));
        }
        while let Some(index) = self.flights.iter().position(Option::is_none) {
            let Some(flight) = ground.state.queue.take_flight(LIMITS, Ticket::is_wanted) else { break };
            let calls = calls(&flight, ground.fleet.is_cluster());
            let flying = Flying { flight, unanswered: calls.len(), departed: ground.now };
            self.flights[index] = Some(flying);
            ground.state.tally.flights += 1;
            for lists in calls {
                self.call(Call { flight: index, lists, manner: Manner::default() }, ground, outgoing);
            }
        }
        ground.state.is_full = self.flights.iter().all(Option::is_some);
        if was_empty && !self.expected.is_empty() {
            ground.state.silent_since = Some(ground.now);
        }
    }

    /// Writes one call down.
    fn call(&mut self, call: Call, ground: &mut Ground<'_>, outgoing: &mut Commands) {
        let Some(flying) = &self.flights[call.flight] else { return };
        let lists = flying.flight.lists().get(call.lists.clone()).unwrap_or_default();
        let Some(script) = lists.first().and_then(|list| list.limit().script()) else {
            return self.fail(&call, ground); // It should not have come here.
        };
        self.arguments.clear();
        self.arguments.text(itoa::Buffer::new().format(lists.len()).as_bytes());
        for list in lists {
            ground.fleet.keys.write(list.key(), &mut self.arguments);
        }
        script::write_time(ground.fleet.made_up_us(), &mut self.arguments);
        self.writer.begin();
        for list in lists {
            let around = call.manner.around.unwrap_or_else(|| ground.fleet.clock.from_steady(ground.now));
            script::write(list, around, &mut self.writer, &mut self.arguments);
        }
        self.arguments.text(Script::END.as_bytes());
        if lists.iter().any(|list| list.asks.iter().any(|asked| asked.ticket.is_asking)) {
            outgoing.command(&[b"ASKING"]);
            self.expected.push_back(Expected::Nothing);
        }
        match self.digests.get(script).filter(|_| !call.manner.is_by_text) {
            Some(digest) => outgoing.command_with(&[b"EVALSHA", digest], &self.arguments),
            None => outgoing.command_with(&[b"EVAL", script.text.as_bytes()], &self.arguments),
        }
        ground.state.tally.calls += 1;
        self.expected.push_back(Expected::Call(call));
    }

    /// Takes a reply to where it belongs. What is left of it can be used again.
    pub(super) fn land(&mut self, reply: Reply, ground: &mut Ground<'_>) -> Result<Vec<i64>, Broken> {
        let expected = self.expected.pop_front().ok_or(Broken::Unasked)?;
        ground.state.heard_at = Some(ground.now);
        ground.state.silent_since = Some(ground.now).filter(|_| !self.expected.is_empty());
        match (expected, reply) {
            (Expected::Call(call), Reply::Integers(integers)) => {
                self.answer(&call, &integers, ground);
                return Ok(integers);
            }
            (Expected::Call(call), Reply::Error(message)) => self.obey(call, &message, ground)?,
            (Expected::Call(call), _) => self.fail(&call, ground),
            (Expected::Plain(asker), reply) => {
                let _ = asker.send(reply); // It may have given up.
            }
            (Expected::Nothing, _) => {}
        }
        Ok(Vec::new())
    }

    /// Gives every ask of a call its answer.
    fn answer(&mut self, call: &Call, integers: &[i64], ground: &mut Ground<'_>) {
        let Some(flying) = &mut self.flights[call.flight] else { return };
        let departed = flying.departed;
        let lists = flying.flight.lists_mut().get_mut(call.lists.clone()).unwrap_or_default();
        let asks = lists.iter().map(|list| list.asks.len()).sum();
        let Some(mut answers) = script::Answers::read(integers, asks) else {
            ground.fleet.murmur(ground.shard, "ERR a script answered something else than was asked");
            return self.fail(call, ground);
        };
        for (index, list) in lists.iter_mut().enumerate() {
            if answers.is_window_unknown(list.limit()) && call.manner.tries < TRIES_MAX {
                answers.skip(list.asks.len());
                let lists = call.lists.start + index..call.lists.start + index + 1;
                let manner = Manner { around: Some(answers.at), tries: call.manner.tries + 1, ..call.manner };
                flying.unanswered += 1;
                self.again.push(Call { flight: call.flight, lists, manner });
                continue;
            }
            let (key, limit) = (list.key(), Arc::clone(list.limit()));
            for asked in list.asks.drain(..) {
                let Some(grant) = answers.next(&limit, asked.act) else {
                    ground.state.answer(asked.ticket, Err(Failure::Refused), ground.now);
                    continue;
                };
                let learnt = Learnt { grant: &grant, limit: &limit, sent_at: departed };
                ground.fleet.learn(key, asked.act, &learnt);
                let pass = asked.ticket.pass;
                let question = Question { key, limit: Arc::clone(&limit), act: asked.act, account: None };
                if ground.state.answer(asked.ticket, Ok(grant), ground.now) == Delivery::TooLate
                    && let Some(act) = question.undo(&grant)
                {
                    ground.state.tally.late_grants += 1;
                    let question = Question { act, ..question };
                    ground.state.tell(Debt { question, since: ground.now }, pass, ground.now);
                }
            }
        }
        self.done(call.flight, ground);
    }

    /// Does what an error asks for.
    fn obey(&mut self, call: Call, message: &str, ground: &mut Ground<'_>) -> Result<(), Broken> {
        let manner = Manner { tries: call.manner.tries.saturating_add(1), ..call.manner };
        let may_fly_again = call.manner.tries < TRIES_MAX;
        match Verdict::of(message) {
            Verdict::LoadScript if may_fly_again => {
                self.again.push(Call { manner: Manner { is_by_text: true, ..manner }, ..call });
                Ok(())
            }
            Verdict::TryAgain if may_fly_again => {
                self.again.push(Call { manner, ..call });
                Ok(())
            }
            Verdict::GoTo(redirect) => {
                self.send_away(&call, redirect.as_ref(), ground);
                self.done(call.flight, ground);
                Ok(())
            }
            verdict => {
                ground.fleet.murmur(ground.shard, message);
                match verdict {
                    Verdict::Refused => self.fail(&call, ground),
                    _ => self.put_off(&call, ground),
                }
                match verdict {
                    Verdict::Reconnect => Err(Broken::Refused(error_code(message).to_owned())),
                    _ => Ok(()),
                }
            }
        }
    }

    /// What this shard does not keep is for another to answer.
    fn send_away(&mut self, call: &Call, redirect: Option<&Redirect>, ground: &mut Ground<'_>) {
        let Some(flying) = &mut self.flights[call.flight] else { return };
        for list in flying.flight.lists_mut().get_mut(call.lists.clone()).unwrap_or_default() {
            let (key, limit) = (list.key(), Arc::clone(list.limit()));
            for asked in list.asks.drain(..) {
                ground.state.breaker.abandoned(asked.ticket.pass); // Another shard's gives it another.
                let question = Question { key, limit: Arc::clone(&limit), act: asked.act, account: None };
                let moved = Moved { redirect: redirect.cloned(), question, ticket: asked.ticket };
                self.moved.push(moved);
            }
        }
    }

    /// None of a call's asks is answered, and what was done of them is not known.
    fn fail(&mut self, call: &Call, ground: &mut Ground<'_>) {
        for list in self.lists(call) {
            for asked in list.asks.drain(..) {
                ground.state.answer(asked.ticket, Err(Failure::Refused), ground.now);
            }
        }
        self.done(call.flight, ground);
    }

    /// None of a call's asks is answered, and nothing was done of them.
    fn put_off(&mut self, call: &Call, ground: &mut Ground<'_>) {
        for list in self.lists(call) {
            let (key, limit) = (list.key(), Arc::clone(list.limit()));
            for asked in list.asks.drain(..) {
                let question = Question { key, limit: Arc::clone(&limit), act: asked.act, account: None };
                ground.state.put_off(question, asked.ticket, Failure::NotNow, ground.now);
            }
        }
        self.done(call.flight, ground);
    }

    fn lists(&mut self, call: &Call) -> &mut [List<Ticket>] {
        let flying = self.flights[call.flight].as_mut();
        flying.and_then(|flying| flying.flight.lists_mut().get_mut(call.lists.clone())).unwrap_or_default()
    }

    /// One more call of a flight is done with. After the last, its keys may fly again.
    fn done(&mut self, index: usize, ground: &mut Ground<'_>) {
        let Some(flying) = &mut self.flights[index] else { return };
        flying.unanswered -= 1;
        if flying.unanswered == 0
            && let Some(flying) = self.flights[index].take()
        {
            ground.state.tally.round_trip(ground.now.since(flying.departed));
            ground.state.queue.land(flying.flight);
        }
    }

    /// The connection is gone, and all that was in the air with it.
    pub(super) fn crash(self, ground: &mut Ground<'_>) {
        for mut flying in self.flights.into_iter().flatten() {
            for list in flying.flight.lists_mut() {
                for asked in list.asks.drain(..) {
                    ground.state.tally.lost_bookings += u64::from(matches!(asked.act, Act::Book(_)));
                    ground.state.answer(asked.ticket, Err(Failure::Lost), ground.now);
                }
            }
            ground.state.queue.land(flying.flight);
        }
    }
}

/// Which lists share a call: those of one script, or in a Cluster each its own.
fn calls(flight: &Flight<Ticket>, is_cluster: bool) -> Vec<Range<usize>> {
    if is_cluster {
        return (0..flight.lists().len()).map(|index| index..index + 1).collect();
    }
    let mut start = 0;
    let range = |lists: &[List<Ticket>]| {
        let range = start..start + lists.len();
        start = range.end;
        range
    };
    flight.calls().map(range).collect()
}
