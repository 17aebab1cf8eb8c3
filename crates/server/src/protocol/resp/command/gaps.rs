//! Answers that have to be waited for, because counters are shared with others.
//!
//! A pipeline is answered in the order of its commands. Where an answer is not known yet, a gap is left; whatever comes after is written
//! behind it. Then shared counters are asked about all gaps at once, in the order of the commands, and the gaps are filled.

use std::mem;

use tollgate::authority::Directed;
use tollgate::core::Time;
use tollgate::{Released, Throttle};

use super::super::reply::{Replies, Version};
use super::{Session, policy, throttle};
use crate::gate::{Begun, Gate, Granted, has_held};

/// So many answers are waited for together at most.
const GAPS_MAX: usize = 256;

/// An answer that is missing.
pub(super) struct Gap<'g> {
    /// How many bytes of answers stand before it.
    at: usize,
    version: Version,
    missing: Missing<'g>,
}

/// What is missing.
pub(super) enum Missing<'g> {
    Throttle { throttle: Throttle, since: Time },
    Check(Begun<'g>),
    Hold(Begun<'g>),
    Release(Released),
}

impl Missing<'_> {
    fn questions(&self) -> &[Directed] {
        match self {
            Missing::Throttle { throttle, .. } => throttle.question().map_or(&[], std::slice::from_ref),
            Missing::Check(begun) | Missing::Hold(begun) => begun.questions(),
            Missing::Release(released) => &released.questions,
        }
    }

    fn put(self, gate: &Gate, granted: &[Granted], replies: &mut Replies) {
        match self {
            Missing::Throttle { throttle, since } => {
                let decision = match granted {
                    [granted] => gate.conclude_throttle(&throttle, *granted, since),
                    _ => gate.decide_unshared_throttle(&throttle),
                };
                throttle::put(&decision, replies);
            }
            Missing::Check(begun) => policy::put_answer(&begun.conclude(granted).0, replies),
            Missing::Hold(begun) => {
                let (verdict, lease) = begun.conclude(granted);
                policy::put_hold(&verdict, lease.as_ref(), replies);
            }
            Missing::Release(released) => match has_held(&released, granted) {
                Ok(held) => replies.integer(i64::from(held)),
                Err(failure) => replies.error(format_args!(
                    "ERR the shared count is out of reach ({failure}), and the lease may still hold something: send it again"
                )),
            },
        }
    }
}

impl<'g> Session<'g> {
    /// Answers now what can be, and leaves a gap otherwise.
    pub(super) fn put_or_wait(&mut self, missing: Missing<'g>, replies: &mut Replies) {
        if missing.questions().is_empty() {
            missing.put(self.gate, &[], replies);
        } else {
            self.gaps.push(Gap { at: replies.as_bytes().len(), version: replies.version(), missing });
        }
    }

    /// Whether there are enough gaps to fill them first.
    pub(in super::super) fn has_many_gaps(&self) -> bool {
        self.gaps.len() >= GAPS_MAX
    }

    /// Waits for what is missing, and writes it where it belongs.
    pub(in super::super) async fn fill_gaps(&mut self, replies: &mut Replies) {
        if self.gaps.is_empty() {
            return;
        }
        let gaps = mem::take(&mut self.gaps);
        let questions: Vec<Directed> = gaps.iter().flat_map(|gap| gap.missing.questions()).cloned().collect();
        let granted = self.gate.ask(&questions).await;
        let (written, version) = (replies.take(), replies.version());
        let (mut done, mut granted) = (0, granted.as_slice());
        for Gap { at, version, missing } in gaps {
            replies.raw(&written[done..at]);
            done = at;
            let (own, others) = granted.split_at_checked(missing.questions().len()).unwrap_or_default();
            granted = others;
            replies.set_version(version);
            missing.put(self.gate, own, replies);
        }
        replies.raw(&written[done..]);
        replies.set_version(version);
    }
}
