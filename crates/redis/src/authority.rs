//! The authority as one thread asks it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tollgate_core::{Ask, Cost, Decision, Intent, Outcome, SharedLimit, Time};
use tollgate_store::authority::debts::Debt;
use tollgate_store::authority::{Act, Failure, Grant, OnceAct, Question};

use crate::fleet::{Fleet, Pin as Place};
use crate::heartbeat;
use crate::shard::Shard;
use crate::ticket::{Answer, Awaited};
use crate::topology::Topology;

/// How often it is looked whether all shards can be asked.
const READY_INTERVAL: Duration = Duration::from_millis(5);

/// Asks the authority, on connections of this thread's own. Clones share them; the last one closes them.
#[derive(Clone)]
pub struct Authority {
    inner: Arc<Inner>,
}

struct Inner {
    fleet: Arc<Fleet>,
    topology: Arc<Topology>,
    heartbeat: AbortHandle,
}

/// One question on its way.
struct Asked {
    question: Question,
    /// Who was asked, unless the answer was known.
    shard: Option<Arc<Shard>>,
    progress: Progress,
}

enum Progress {
    Awaited(Awaited),
    Answered(Answer),
}

/// Questions on their way. What is granted to somebody who does not wait for it any more is given back.
struct Waiting<'a> {
    fleet: &'a Fleet,
    /// Requests with more limits than this are rare.
    asked: SmallVec<[Asked; 4]>,
}

impl Authority {
    /// Begins to connect, in the runtime of this thread.
    pub fn start(fleet: &Arc<Fleet>) -> Authority {
        let topology = Arc::new(Topology::start(fleet));
        fleet.join(&topology);
        let beat = heartbeat::beat(Arc::clone(fleet), Arc::downgrade(&topology));
        let heartbeat = tokio::spawn(beat).abort_handle();
        Authority { inner: Arc::new(Inner { fleet: Arc::clone(fleet), topology, heartbeat }) }
    }

    /// What all threads share.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.inner.fleet
    }

    /// Waits until every shard can be asked, and tells whether that was so in time.
    pub async fn ready(&self, patience: Duration) -> bool {
        let ready = async {
            while !self.inner.topology.is_ready() {
                sleep(READY_INTERVAL).await;
            }
        };
        timeout(patience, ready).await.is_ok()
    }

    /// Asks one question. The answer comes within the time given, one way or another.
    pub async fn ask(&self, question: Question, pin: Option<Place>, patience: Duration) -> Answer {
        let asked = self.ask_all([(question, pin)], patience).await;
        asked.into_iter().next().unwrap_or(Err(Failure::Refused))
    }

    /// Asks several questions at once: one round trip for each shard that is concerned. All answers come within the time given.
    pub async fn ask_all(
        &self,
        questions: impl IntoIterator<Item = (Question, Option<Place>)>,
        patience: Duration,
    ) -> Vec<Answer> {
        let fleet = &*self.inner.fleet;
        let now = fleet.clock.steady();
        let asked = questions.into_iter().map(|(question, pin)| self.send(question, pin, now)).collect();
        let mut waiting = Waiting { fleet, asked };
        let _ = timeout(patience, poll_fn(|cx| waiting.poll(cx))).await; // What is there by then counts.
        waiting.take()
    }

    /// Does what nobody has to wait for: gives units back, ends holds.
    pub fn send_back(&self, questions: impl IntoIterator<Item = (Question, Option<Place>)>) {
        let now = self.inner.fleet.clock.steady();
        for (question, pin) in questions {
            if question.limit.script().is_some()
                && let Some(shard) = self.inner.topology.shard_of(question.key, pin)
            {
                shard.tell(Debt { question, since: now }, now);
            }
        }
    }

    fn send(&self, question: Question, pin: Option<Place>, now: Time) -> Asked {
        match self.known(&question, now) {
            Some(grant) => Asked { question, shard: None, progress: Progress::Answered(Ok(grant)) },
            None => self.ask_shard(question, pin, now),
        }
    }

    /// What need not be asked.
    fn known(&self, question: &Question, now: Time) -> Option<Grant> {
        if question.limit.script().is_none() {
            return Some(without_asking(&question.limit, question.act, now));
        }
        let Act::Take(cost) = question.act else { return None };
        let decision = self.inner.fleet.denied(question, cost, now)?;
        Some(Grant { decision, at: question.limit.moment(now), holder: None, leased: 0, is_repeated: false })
    }

    fn ask_shard(&self, question: Question, pin: Option<Place>, now: Time) -> Asked {
        let shard = self.inner.topology.shard_of(question.key, pin);
        let asked = match &shard {
            Some(shard) => shard.ask(question.clone(), now),
            None => Err(Failure::Unreachable),
        };
        let progress = asked.map_or_else(|failure| Progress::Answered(Err(failure)), Progress::Awaited);
        Asked { question, shard, progress }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.heartbeat.abort();
    }
}

impl Waiting<'_> {
    /// Ready once everything is answered.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut is_ready = true;
        for asked in &mut self.asked {
            let Progress::Awaited(awaited) = &mut asked.progress else { continue };
            match Pin::new(&mut awaited.answer).poll(cx) {
                // Who forgets an ask has lost its connection.
                Poll::Ready(answer) => {
                    asked.progress = Progress::Answered(answer.unwrap_or(Err(Failure::Lost)));
                }
                Poll::Pending => is_ready = false,
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The answers. What is not answered by now will not be.
    fn take(mut self) -> Vec<Answer> {
        let asked = std::mem::take(&mut self.asked);
        let end = |mut asked: Asked| asked.end().unwrap_or_else(|| asked.give_up(self.fleet));
        asked.into_iter().map(end).collect()
    }
}

impl Asked {
    /// Closes the way of an answer that has not come. Nothing can be granted unnoticed after that.
    fn end(&mut self) -> Option<Answer> {
        match &mut self.progress {
            Progress::Answered(answer) => Some(*answer),
            Progress::Awaited(awaited) => {
                awaited.answer.close();
                awaited.answer.try_recv().ok()
            }
        }
    }

    /// Nobody has answered in time.
    fn give_up(self, fleet: &Fleet) -> Answer {
        Err(match (self.shard, self.progress) {
            (Some(shard), Progress::Awaited(awaited)) => {
                shard.gave_up(self.question.key, &awaited, fleet.clock.steady())
            }
            _ => Failure::TimedOut,
        })
    }
}

impl Drop for Waiting<'_> {
    /// Whoever asked has gone: nobody has what was granted.
    fn drop(&mut self) {
        for mut asked in std::mem::take(&mut self.asked) {
            let answer = asked.end();
            let Some(shard) = &asked.shard else { continue };
            match (answer, asked.progress) {
                (Some(Ok(grant)), _) => {
                    if let Some(act) = asked.question.undo(&grant) {
                        let now = self.fleet.clock.steady();
                        shard.tell(Debt { question: Question { act, ..asked.question }, since: now }, now);
                    }
                }
                (None, Progress::Awaited(awaited)) => shard.abandoned(awaited.pass),
                _ => {}
            }
        }
    }
}

/// The answer of a limit that is the same for every key at all times.
fn without_asking(limit: &SharedLimit, act: Act, now: Time) -> Grant {
    let at = limit.moment(now);
    let ask = |cost, intent| Ask { cost, now: at, intent };
    let decide = |ask| limit.limit().decide(&mut limit.limit().fresh(), ask);
    let decision: Decision = match act {
        Act::Peek(cost) => decide(ask(cost, Intent::Peek)),
        Act::Take(cost) | Act::Once(_, OnceAct::Take(cost)) => decide(ask(cost, Intent::Take)),
        Act::Lease { .. } => decide(ask(Cost::ONE, Intent::Take)), // Nothing of this kind is leased.
        Act::Book(cost) | Act::Once(_, OnceAct::Book(cost)) => decide(ask(cost, Intent::Book)),
        Act::GiveBack { .. } | Act::Return(_) | Act::Settle(_) | Act::Once(..) | Act::Reset => {
            Decision { outcome: Outcome::ALLOWED, ..decide(ask(Cost::ZERO, Intent::Peek)) }
        }
        Act::Release(_) => Decision { outcome: Outcome::Busy, ..decide(ask(Cost::ZERO, Intent::Peek)) },
    };
    Grant { decision, at, holder: None, leased: 0, is_repeated: false }
}
