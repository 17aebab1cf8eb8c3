//! A steady load that does not wait for answers: a round of questions every few milliseconds, whatever becomes of those before.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollgate_testkit::real::redis::{RedisClient, Reply};
use tollgate_testkit::real::{Tollgate, until};

/// A round of three questions every so often is 300 a second.
const INTERVAL: Duration = Duration::from_millis(10);

/// What is asked for: a policy and a key.
pub(crate) type Subject = (&'static str, &'static str);

/// A load that runs.
pub(crate) struct Load {
    subjects: Vec<Subject>,
    sent: Arc<AtomicUsize>,
    /// What was answered in each round, by subject: whether it was admitted.
    rounds: Arc<Mutex<Vec<Vec<bool>>>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Begins to ask for all of these in every round.
    pub(crate) fn start(tollgate: &Tollgate, subjects: &[Subject]) -> Load {
        let subjects = subjects.to_vec();
        let (sent, rounds, is_over) = (Arc::default(), Arc::default(), Arc::default());
        let receiver = RedisClient::connect(tollgate.resp()).unwrap();
        let sender = Sender {
            client: receiver.try_clone().unwrap(),
            subjects: subjects.clone(),
            sent: Arc::clone(&sent),
            is_over: Arc::clone(&is_over),
        };
        let receiver = Receiver { client: receiver, width: subjects.len(), rounds: Arc::clone(&rounds) };
        let threads = vec![thread::spawn(|| sender.run()), thread::spawn(|| receiver.run())];
        Load { subjects, sent, rounds, is_over, threads }
    }

    /// What is asked for in every round.
    pub(crate) fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// Waits until so many rounds that begin from now on are answered, and says which they are.
    pub(crate) fn pass(&self, count: usize) -> Range<usize> {
        let first = self.sent.load(Ordering::SeqCst) + 1; // One may be on its way.
        until("questions are answered", || {
            assert!(!self.threads.iter().any(JoinHandle::is_finished), "the load has ended");
            (self.rounds.lock().unwrap().len() >= first + count).then_some(())
        });
        first..first + count
    }

    /// How often a subject was admitted in these rounds.
    pub(crate) fn admitted(&self, rounds: &Range<usize>, subject: Subject) -> u64 {
        let place = self.subjects.iter().position(|other| *other == subject).unwrap();
        self.rounds.lock().unwrap()[rounds.clone()].iter().filter(|round| round[place]).count() as u64
    }

    /// How many rounds are answered.
    pub(crate) fn answered(&self) -> usize {
        self.rounds.lock().unwrap().len()
    }

    /// Asks nothing more, and waits until everything is answered.
    pub(crate) fn finish(&mut self) -> Range<usize> {
        self.is_over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        let answered = self.rounds.lock().unwrap().len();
        assert_eq!(answered, self.sent.load(Ordering::SeqCst), "something was not answered");
        0..answered
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

struct Sender {
    client: RedisClient,
    subjects: Vec<Subject>,
    sent: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Sender {
    fn run(mut self) {
        while !self.is_over.load(Ordering::SeqCst) {
            for (policy, key) in &self.subjects {
                self.client.send(&[b"TG.CHECK", policy.as_bytes(), key.as_bytes()]).unwrap();
            }
            self.sent.fetch_add(1, Ordering::SeqCst);
            thread::sleep(INTERVAL);
        }
        // A last one, so that whoever receives learns that there will be no other. Where a test has failed, the server may be gone.
        let _ = self.client.send(&[b"PING"]);
    }
}

struct Receiver {
    client: RedisClient,
    width: usize,
    rounds: Arc<Mutex<Vec<Vec<bool>>>>,
}

impl Receiver {
    fn run(mut self) {
        loop {
            let mut round = Vec::with_capacity(self.width);
            while round.len() < self.width {
                match self.client.receive().unwrap() {
                    Reply::Array(answer) => round.push(answer[0].integer() == 1),
                    Reply::Simple(pong) if pong == "PONG" && round.is_empty() => return,
                    other => panic!("no answer: {other:?}"),
                }
            }
            self.rounds.lock().unwrap().push(round);
        }
    }
}
