//! Atomics and the one kind of lock, by way of one module, so that loom can stand in for the real ones.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use modelled::{Lock, Wait};
#[cfg(not(loom))]
pub(crate) use real::{Lock, Wait};

/// Stands between looking and acting where somebody else may act first: a model lets them.
#[inline]
pub(crate) fn gap() {
    #[cfg(loom)]
    loom::thread::yield_now();
}

#[cfg(not(loom))]
mod real {
    use super::{AtomicBool, Ordering};

    /// Waiting for another thread that is about to finish: spins a little, then lets others run, in case the one
    /// waited for has no core.
    #[derive(Default)]
    pub(crate) struct Wait {
        rounds: u32,
    }

    impl Wait {
        const SPINS_MAX: u32 = 64;

        pub(crate) fn pause(&mut self) {
            self.rounds += 1;
            if self.rounds < Wait::SPINS_MAX {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// A lock of one byte, for work of some hundred nanoseconds.
    #[derive(Default)]
    pub(crate) struct Lock {
        taken: AtomicBool,
    }

    impl Lock {
        pub(crate) fn try_take(&self) -> bool {
            // Acquire: pairs with the release in `free`, so that things are seen as the last holder left them.
            !self.taken.swap(true, Ordering::Acquire)
        }

        pub(crate) fn take(&self) {
            let mut wait = Wait::default();
            while !self.try_take() {
                wait.pause();
            }
        }

        pub(crate) fn free(&self) {
            self.taken.store(false, Ordering::Release);
        }
    }
}

/// The same for loom, which cannot explore a thread that spins.
#[cfg(loom)]
mod modelled {
    use loom::sync::{Condvar, Mutex};

    #[derive(Default)]
    pub(crate) struct Wait;

    impl Wait {
        pub(crate) fn pause(&mut self) {
            loom::thread::yield_now();
        }
    }

    pub(crate) struct Lock {
        taken: Mutex<bool>,
        freed: Condvar,
    }

    impl Default for Lock {
        fn default() -> Lock {
            Lock { taken: Mutex::new(false), freed: Condvar::new() }
        }
    }

    impl Lock {
        pub(crate) fn try_take(&self) -> bool {
            !std::mem::replace(&mut *self.taken.lock().unwrap(), true)
        }

        pub(crate) fn take(&self) {
            let mut taken = self.taken.lock().unwrap();
            while *taken {
                taken = self.freed.wait(taken).unwrap();
            }
            *taken = true;
        }

        pub(crate) fn free(&self) {
            *self.taken.lock().unwrap() = false;
            self.freed.notify_all();
        }
    }
}
