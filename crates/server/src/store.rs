//! Where counters are shared with other processes.

use tollgate::authority::{Failure, Question};

use crate::gate::Granted;

/// The way to shared counters.
pub(crate) struct Store {
    secret: Vec<u8>,
}

impl Store {
    /// What all who share the counters know.
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Asks, all at once.
    #[allow(clippy::unused_async)]
    pub(crate) async fn ask(&self, questions: &[Question]) -> Vec<Granted> {
        vec![Err(Failure::NotAsked); questions.len()]
    }

    /// Tells what nobody waits for.
    pub(crate) fn send(&self, questions: Vec<Question>) {
        drop(questions);
    }
}
