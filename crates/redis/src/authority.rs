//! The authority as one thread asks it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tollgate_core::{Ask, Cost, Decision, Intent, Outcome, SharedLimit, Time};
use tollgate_store::authority::{Act, Failure, Grant, Question};

use crate::fleet::{Fleet, Pin as Place};
use crate::heartbeat;
use crate::shard::Shard;
use crate::ticket::{Answer, Awaited, undo};
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
    /// Who was asked, where anybody had to be.
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
    asked: Vec<Asked>,
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
        let now = fleet.clock.now();
        let asked = questions.into_iter().map(|(question, pin)| self.send(question, pin, now)).collect();
        let mut waiting = Waiting { fleet, asked };
        if timeout(patience, poll_fn(|cx| waiting.poll(cx))).await.is_err() {
            waiting.give_up();
        }
        waiting.take()
    }

    /// Does what nobody has to wait for: gives units back, ends holds.
    pub fn send_back(&self, questions: impl IntoIterator<Item = (Question, Option<Place>)>) {
        let now = self.inner.fleet.clock.now();
        for (question, pin) in questions {
            if let Some(shard) = self.inner.topology.shard_of(question.key, pin) {
                shard.tell(question, now);
            }
        }
    }

    fn send(&self, question: Question, pin: Option<Place>, now: Time) -> Asked {
        let Inner { fleet, topology, .. } = &*self.inner;
        if question.limit.script().is_none() {
            let grant = without_asking(&question.limit, question.act, now);
            return Asked::of_nobody(question, Ok(grant));
        }
        if let Act::Take(cost) = question.act
            && let Some(decision) = fleet.denied(&question, cost, now)
        {
            let at = question.limit.moment(now);
            return Asked::of_nobody(question, Ok(Grant { decision, at, holder: None }));
        }
        let Some(shard) = topology.shard_of(question.key, pin) else {
            return Asked::of_nobody(question, Err(Failure::Unreachable));
        };
        let progress = match shard.ask(question.clone(), now) {
            Ok(awaited) => Progress::Awaited(awaited),
            Err(failure) => Progress::Answered(Err(failure)),
        };
        Asked { question, shard: Some(shard), progress }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.heartbeat.abort();
    }
}

impl Asked {
    /// What is answered without a shard.
    fn of_nobody(question: Question, answer: Answer) -> Asked {
        Asked { question, shard: None, progress: Progress::Answered(answer) }
    }

    /// What there is of an answer, for somebody who does not wait.
    fn close(&mut self) -> Option<Answer> {
        match &mut self.progress {
            Progress::Answered(answer) => Some(*answer),
            Progress::Awaited(awaited) => {
                awaited.answer.close();
                awaited.answer.try_recv().ok()
            }
        }
    }
}

impl Waiting<'_> {
    /// Ready once everything is answered.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut is_ready = true;
        for Asked { progress, .. } in &mut self.asked {
            let Progress::Awaited(awaited) = progress else { continue };
            match Pin::new(&mut awaited.answer).poll(cx) {
                // Who forgets an ask has lost its connection.
                Poll::Ready(answer) => {
                    *progress = Progress::Answered(answer.unwrap_or(Err(Failure::Unreachable)));
                }
                Poll::Pending => is_ready = false,
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Time is up: what is not answered will not be.
    fn give_up(&mut self) {
        let now = self.fleet.clock.now();
        for asked in &mut self.asked {
            let answer = asked.close();
            let Asked { shard: Some(shard), progress, question } = asked else { continue };
            if let Progress::Awaited(awaited) = progress {
                let gave_up = || Err(shard.gave_up(question.key, awaited, now));
                *progress = Progress::Answered(answer.unwrap_or_else(gave_up));
            }
        }
    }

    fn take(mut self) -> Vec<Answer> {
        let asked = std::mem::take(&mut self.asked);
        let answer = |asked: Asked| match asked.progress {
            Progress::Answered(answer) => answer,
            Progress::Awaited(_) => Err(Failure::TimedOut),
        };
        asked.into_iter().map(answer).collect()
    }
}

impl Drop for Waiting<'_> {
    /// Whoever asked is gone: nobody has what was granted, whether all of it has come or some.
    fn drop(&mut self) {
        for asked in &mut self.asked {
            if let Some(Ok(grant)) = asked.close()
                && let Asked { question, shard: Some(shard), .. } = asked
                && let Some(act) = undo(question.act, &grant)
            {
                let question = Question { act, ..question.clone() };
                shard.tell(question, self.fleet.clock.now());
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
        Act::Take(cost) => decide(ask(cost, Intent::Take)),
        Act::Book(cost) => decide(ask(cost, Intent::Book)),
        Act::GiveBack { .. } | Act::Reset => {
            Decision { outcome: Outcome::ALLOWED, ..decide(ask(Cost::ZERO, Intent::Peek)) }
        }
        Act::Release(_) => Decision { outcome: Outcome::Busy, ..decide(ask(Cost::ZERO, Intent::Peek)) },
    };
    Grant { decision, at, holder: None }
}
