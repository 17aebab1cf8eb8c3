//! Waiting for what another process does: the one place where tests sleep.

use std::thread;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(10);
/// Long enough for a machine with much else to do: whoever waits so long has found a fault.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Lets others have the machine for a moment.
pub(super) fn pause() {
    thread::sleep(INTERVAL);
}

/// Lets time pass where that is what is being tried.
pub(super) fn pause_for(time: Duration) {
    thread::sleep(time);
}

/// Asks until there is an answer. Panics if there is none for long.
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    until_for(PATIENCE, what, ask)
}

/// The same, for what takes longer than most.
pub(super) fn until_for<T>(patience: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..patience.as_millis() / INTERVAL.as_millis() {
        if let Some(answer) = ask() {
            return answer;
        }
        thread::sleep(INTERVAL);
    }
    panic!("waited in vain: {what}");
}

/// Whether something comes true within this time, give or take what asking takes.
pub fn holds_within(time: Duration, mut ask: impl FnMut() -> bool) -> bool {
    let attempts = time.as_millis() / INTERVAL.as_millis();
    (0..attempts).any(|_| {
        let holds = ask();
        if !holds {
            thread::sleep(INTERVAL);
        }
        holds
    })
}
