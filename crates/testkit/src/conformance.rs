//! The one runner: plays a trace to an implementation and to the oracle, and compares every answer.

mod divergence;
mod play;
#[cfg(test)]
mod tests;

pub use divergence::Divergence;

use crate::spec::Spec;
use crate::subject::Subject;
use crate::timeline::Timeline;
use crate::trace::{Trace, draw};
use play::Play;

/// The length of the traces of [`run_suite`].
const STEPS: usize = 60;

/// The keys that a trace is played on.
const KEYS: [&[u8]; 3] = [b"alice", b"203.0.113.7", b"tenant=7|path=/v1/chat"];

/// Plays `trace` to `subject` under the numbers of `spec` and compares every field of every answer with the oracle's.
pub fn conform(spec: &Spec, trace: &Trace, subject: &mut impl Subject) -> Result<(), Box<Divergence>> {
    let mut play = Play::new(spec, trace);
    for step in &trace.steps {
        play.step(*step, subject)?;
    }
    Ok(())
}

/// Plays `cases` traces to a fresh subject for each kind of limit there is. A subject that is not made, because an
/// implementation does not know the algorithm, is passed over. Returns how many traces were played, or the
/// first divergence, with its trace made as short as it gets by leaving steps out.
pub fn run_suite<S: Subject>(
    make_subject: impl FnMut(&Spec) -> Option<S>,
    cases: u64,
) -> Result<u64, Box<Divergence>> {
    run_suite_on(Timeline::LEDGER, make_subject, cases)
}

/// As [`run_suite`], on any timeline.
pub fn run_suite_on<S: Subject>(
    timeline: Timeline,
    mut make_subject: impl FnMut(&Spec) -> Option<S>,
    cases: u64,
) -> Result<u64, Box<Divergence>> {
    let kinds = Spec::kinds_on(timeline);
    let mut played = 0;
    for case in 0..cases {
        for (kind, specs) in kinds.iter().enumerate() {
            let seed = case << 8 | kind as u64;
            let spec = draw(specs, seed);
            let Some(mut subject) = make_subject(&spec) else { continue };
            let trace = Trace::seeded(timeline, seed, STEPS);
            if let Err(divergence) = conform(&spec, &trace, &mut subject) {
                return Err(shorten(&spec, trace, *divergence, &mut make_subject).into());
            }
            played += 1;
        }
    }
    Ok(played)
}

/// Leaves out steps, the last ones first, for as long as there is a divergence.
fn shorten<S: Subject>(
    spec: &Spec,
    mut trace: Trace,
    mut divergence: Divergence,
    make_subject: &mut impl FnMut(&Spec) -> Option<S>,
) -> Divergence {
    trace.steps.truncate(divergence.step() + 1);
    for leave_out in (0..trace.steps.len()).rev() {
        let Some(mut subject) = make_subject(spec) else { break };
        if leave_out >= trace.steps.len() {
            continue; // Left out already, with all that came after the divergence.
        }
        let mut shorter = trace.clone();
        shorter.steps.remove(leave_out);
        if let Err(found) = conform(spec, &shorter, &mut subject) {
            shorter.steps.truncate(found.step() + 1);
            (trace, divergence) = (shorter, *found);
        }
    }
    divergence
}
