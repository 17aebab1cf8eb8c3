//! Waking up on time. The runtime's own timers tick in milliseconds, which is longer than most answers take.

use std::io;

/// Wakes a task up at a moment, to within some microseconds where the system can.
#[cfg(target_os = "linux")]
pub(crate) struct Alarm {
    /// A timer of the system. It is read like the end of a pipe: the runtime has no kind of its own for it.
    timer: tokio::net::unix::pipe::Receiver,
}

#[cfg(target_os = "linux")]
impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Alarm { timer: tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(timer)? })
    }

    /// Comes back after so long.
    pub(crate) async fn wait_ns(&mut self, wait_ns: u64) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        use tokio::io::AsyncReadExt;
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        let wait_ns = wait_ns.max(1); // Zero would switch the timer off.
        let once = Timespec {
            tv_sec: i64::try_from(wait_ns / NS_PER_S).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(wait_ns % NS_PER_S).unwrap_or(0),
        };
        let setting = Itimerspec { it_interval: nothing, it_value: once };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)?;
        // How often it has rung, in eight bytes. Room for more tells the runtime that all is read.
        self.timer.read(&mut [0; 16]).await.map(drop)
    }
}

#[cfg(target_os = "linux")]
const NS_PER_S: u64 = 1_000_000_000;

/// Wakes a task up at a moment, to within a millisecond or two.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Alarm;

#[cfg(not(target_os = "linux"))]
impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        Ok(Alarm)
    }

    /// Comes back after so long.
    pub(crate) async fn wait_ns(&mut self, wait_ns: u64) -> io::Result<()> {
        tokio::time::sleep(std::time::Duration::from_nanos(wait_ns)).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
