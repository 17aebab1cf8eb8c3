//! Which core does what, and how long a process has been on one.

use std::error::Error;
use std::{fs, io};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// One core for the servers, one for the generator, where there are two.
pub(crate) struct Cores {
    all: CpuSet,
    split: Option<Split>,
}

#[derive(Clone, Copy)]
struct Split {
    server: usize,
    generator: usize,
}

impl Cores {
    /// The first core that this process may use generates, the last serves.
    pub(crate) fn split() -> io::Result<Cores> {
        let all = sched_getaffinity(None)?;
        let mut usable = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core));
        let split = match (usable.next(), usable.next_back()) {
            (Some(generator), Some(server)) => Some(Split { server, generator }),
            _ => None,
        };
        Ok(Cores { all, split })
    }

    /// Whatever this thread starts from here on runs where servers do.
    pub(crate) fn serve(&self) -> io::Result<()> {
        self.stay(self.split.map(|split| split.server))
    }

    /// This thread, and those that it starts, run where the generator does.
    pub(crate) fn generate(&self) -> io::Result<()> {
        self.stay(self.split.map(|split| split.generator))
    }

    /// In words.
    pub(crate) fn told(&self) -> String {
        match self.split {
            Some(Split { server, generator }) => {
                format!("servers on core {server}, the generator on core {generator}")
            }
            None => "servers and generator share the only core there is: of little worth".to_owned(),
        }
    }

    fn stay(&self, core: Option<usize>) -> io::Result<()> {
        let cores = core.map_or(self.all, |core| {
            let mut one = CpuSet::new();
            one.set(core);
            one
        });
        Ok(sched_setaffinity(None, &cores)?)
    }
}

/// How long a process has been on a core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuTime {
    /// To the nanosecond, where the kernel counts what each thread ran.
    pub(crate) total_ns: f64,
    /// In its own code, and in the kernel's on its behalf: in ticks of ten milliseconds.
    user_ticks: f64,
    system_ticks: f64,
}

impl CpuTime {
    /// Of this process so far.
    pub(crate) fn of(pid: u32) -> Result<CpuTime, Box<dyn Error>> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (user_ticks, system_ticks) = ticks(&stat).ok_or("/proc has no times of a process")?;
        let told_ns = (user_ticks + system_ticks) * 1e9 / rustix::param::clock_ticks_per_second() as f64;
        let total_ns = exact_ns(pid).filter(|&exact_ns| exact_ns > 0.0).unwrap_or(told_ns);
        Ok(CpuTime { total_ns, user_ticks, system_ticks })
    }

    /// What has come since.
    pub(crate) fn since(self, before: CpuTime) -> CpuTime {
        CpuTime {
            total_ns: self.total_ns - before.total_ns,
            user_ticks: self.user_ticks - before.user_ticks,
            system_ticks: self.system_ticks - before.system_ticks,
        }
    }

    /// Both.
    pub(crate) fn plus(self, other: CpuTime) -> CpuTime {
        CpuTime {
            total_ns: self.total_ns + other.total_ns,
            user_ticks: self.user_ticks + other.user_ticks,
            system_ticks: self.system_ticks + other.system_ticks,
        }
    }

    /// Which part of it was in its own code. The more time, the finer.
    pub(crate) fn user_part(self) -> f64 {
        self.user_ticks / (self.user_ticks + self.system_ticks).max(1.0)
    }
}

/// The 14th and 15th field. The second is a name in brackets, with any letters in it.
fn ticks(stat: &str) -> Option<(f64, f64)> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// What all threads of a process ran, to the nanosecond.
fn exact_ns(pid: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let ran = |thread: fs::DirEntry| {
        let schedstat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse::<f64>().ok()
    };
    threads.flatten().map(ran).sum()
}

#[cfg(test)]
mod tests;
