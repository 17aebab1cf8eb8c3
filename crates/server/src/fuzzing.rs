//! What fuzzers feed: one function a target, which takes any bytes and panics if they are not answered as they must be.
//!
//! The targets in `fuzz/` call these functions, and so do the tests, with everything in `fuzz/corpus`. What they look at does not
//! depend on the time, on chance or on what came before: what was found once is found again.

#![allow(clippy::expect_used, clippy::panic)] // That is how a target says that it has found something.

pub(crate) mod pieces;
#[cfg(test)]
mod tests;
mod yaml;

use std::cell::{OnceCell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use axum::Router;
use http::HeaderValue;
use tokio::runtime::{Builder, Runtime};
use tollgate::policy::{DefaultAlgorithm, FileSpec, Source, read_all};
use tollgate::{EngineSettings, LedgerSettings};

pub use self::yaml::yaml;
use crate::gate::{Gate, GateSettings};
pub use crate::protocol::http::fuzzing::{http_auth, json, quick};
use crate::protocol::http::router;
pub use crate::protocol::resp::fuzzing::resp;
pub use crate::protocol::rls::fuzzing::{frames, rls};

/// Room for the few keys of one input: to reserve more would take longer than to answer it.
const LEDGER_BYTES: usize = 1 << 20;

static RULES: LazyLock<Vec<FileSpec>> = LazyLock::new(|| {
    let source = Source::new("rules.yaml", include_str!("fuzzing/rules.yaml"));
    read_all(&[source], DefaultAlgorithm::default()).expect("the rules are right")
});

thread_local! {
    /// Those that are as good as new.
    static GATES: RefCell<Vec<Served>> = const { RefCell::new(Vec::new()) };

    static RUNTIME: Runtime =
        Builder::new_current_thread().enable_time().build().expect("a runtime without I/O can be made");
}

/// A gate, and the router that asks it.
struct Served {
    gate: Arc<Gate>,
    router: OnceCell<Router>,
}

/// What has nothing to wait for, at once.
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// Shows a gate that has not counted anything yet, with rules of every kind.
pub(crate) fn with_gate<R>(ask: impl FnOnce(&Arc<Gate>) -> R) -> R {
    with_served(|served| ask(&served.gate))
}

/// Shows such a gate and all routes of HTTP to it.
pub(crate) fn with_router<R>(ask: impl FnOnce(&Arc<Gate>, Router) -> R) -> R {
    with_served(|served| {
        let router = served.router.get_or_init(|| router(Arc::clone(&served.gate)));
        ask(&served.gate, router.clone())
    })
}

/// Making one takes much longer than to refuse an input: one that has nothing to forget is kept.
fn with_served<R>(ask: impl FnOnce(&Served) -> R) -> R {
    let served = GATES.with_borrow_mut(Vec::pop);
    let served = served.unwrap_or_else(|| Served { gate: Arc::new(new_gate()), router: OnceCell::new() });
    let answer = ask(&served);
    if served.gate.engine().stats().keys == 0 {
        GATES.with_borrow_mut(|gates| gates.push(served));
    }
    answer
}

/// One that tells everything it can.
fn new_gate() -> Gate {
    let settings = GateSettings {
        engine: engine_settings(),
        rls_x_ratelimit_headers: true,
        rls_older_headers: true,
        rls_dynamic_metadata: true,
        ..GateSettings::default()
    };
    let gate = Gate::new(settings).expect("a small gate can be made");
    gate.install(RULES.clone());
    gate
}

fn engine_settings() -> EngineSettings {
    EngineSettings { ledger: LedgerSettings::with_cap(LEDGER_BYTES), ..EngineSettings::default() }
}

/// Runs what would wait, if its bytes were not there already.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// A header field must be one that can be sent.
pub(crate) fn check_field(name: &str, value: &str) {
    assert!(!value.is_empty() && HeaderValue::from_str(value).is_ok(), "{name}: {value:?}");
}
