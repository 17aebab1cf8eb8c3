//! Wall time that a test sets: a library, put before the system's, adds to it what a file says.
//!
//! Only wall time is shifted. Time that only runs stays as it is, as when an operator or NTP sets a clock.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::process::run;
use super::tollgate::Launch;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    const char *path = getenv("WALL_TIME_SHIFT");
    char text[32] = {0};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    long length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
"#;

/// Wall time of one or more processes.
#[derive(Debug)]
pub struct WallTime {
    folder: TempDir,
}

impl Default for WallTime {
    fn default() -> WallTime {
        WallTime::new()
    }
}

impl WallTime {
    /// As it is.
    pub fn new() -> WallTime {
        let folder = tempfile::tempdir().expect("a temporary directory");
        // PostgreSQL reads it as a user of its own.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))
            .expect("a directory of our own");
        let source = folder.path().join("wall_time.c");
        fs::write(&source, SOURCE).expect("a file in a directory of our own");
        let wall_time = WallTime { folder };
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(wall_time.library()).arg(&source);
        let done = run(&mut compile);
        assert_eq!(done.code, Some(0), "cc: {}", done.stderr);
        wall_time.set(0);
        wall_time
    }

    /// From now on, wall time is so many seconds ahead, or behind.
    pub fn set(&self, seconds: i64) {
        let draft = self.folder.path().join("draft");
        fs::write(&draft, seconds.to_string()).expect("a file in a directory of our own");
        fs::rename(&draft, self.shift()).expect("a file in a directory of our own");
    }

    /// The environment variables of a process that goes by it.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        let text = |path: PathBuf| path.display().to_string();
        [("LD_PRELOAD", text(self.library())), ("WALL_TIME_SHIFT", text(self.shift()))]
    }

    /// A server that goes by it.
    pub fn of(&self, launch: Launch) -> Launch {
        self.variables().iter().fold(launch, |launch, (name, value)| launch.variable(name, value))
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("wall_time.so")
    }

    fn shift(&self) -> PathBuf {
        self.folder.path().join("shift")
    }
}
