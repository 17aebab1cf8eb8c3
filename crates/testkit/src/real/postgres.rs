//! A real PostgreSQL: processes of its own, in a directory of its own, that end with the test.
//!
//! It listens at a loopback port that nobody else had and nowhere else, and can be killed, frozen, woken and started again at the same
//! port with what it has on disk. `initdb` is run once and its result kept under `target/`; every server begins with a copy of that. PostgreSQL does
//! not run as root: where the test does, the server runs as the user that Debian has made for it.

#[cfg(test)]
mod tests;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::statvfs;
use rustix::process::{Pid, geteuid, kill_process};
use tempfile::TempDir;

use super::process::{Process, Signal, run};
use super::proxy::Proxy;
use super::wait::until;
use super::wall_time::WallTime;

/// Where Debian has its versions.
const VERSIONS: &str = "/usr/lib/postgresql";
/// In memory, where a copy of the template takes a twentieth of the time that it takes on a disk; if there is room for so much.
const MEMORY: &str = "/dev/shm";
const MEMORY_BYTES_MIN: u64 = 512 << 20;
/// So often another port is tried where somebody else has taken the free one meanwhile.
const PORTS_TRIED: u32 = 5;
/// Who may do everything.
const SUPERUSER: &str = "postgres";
/// An ordinary user, and the database of that name that is theirs.
const USER: &str = "tollgate";
/// The password of both.
const PASSWORD: &str = "not-a-secret";
/// A change of what a new server has makes a new template.
const TEMPLATE: &str = "postgres-template-1";

/// How a server is to be started.
#[derive(Clone, Debug)]
pub struct PostgresLaunch {
    settings: Vec<String>,
    is_durable: bool,
    identity: Option<(String, String)>,
    variables: Vec<(&'static str, String)>,
}

/// A running server.
#[derive(Debug)]
pub struct PostgresServer {
    // Before its directory: fields are dropped in order.
    process: Process,
    folder: TempDir,
    launch: PostgresLaunch,
    address: SocketAddr,
}

impl Default for PostgresLaunch {
    fn default() -> PostgresLaunch {
        let settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            // Enough for processes that are killed: the system still has what they wrote.
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=16MB",
            "max_wal_size=64MB",
            // In its directory, and not where it would stay after a server that was killed.
            "dynamic_shared_memory_type=mmap",
            "max_connections=60",
        ];
        let settings = settings.map(str::to_owned).into();
        PostgresLaunch { settings, is_durable: false, identity: None, variables: Vec::new() }
    }
}

impl PostgresLaunch {
    /// With this setting, such as `max_connections=5`.
    #[must_use]
    pub fn setting(mut self, setting: &str) -> PostgresLaunch {
        self.settings.push(setting.to_owned());
        self
    }

    /// As an operator would run it: what it has committed is on the disk.
    #[must_use]
    pub fn durable(self) -> PostgresLaunch {
        PostgresLaunch { is_durable: true, ..self.setting("fsync=on").setting("full_page_writes=on") }
    }

    /// With TLS for those who want it: its certificate and the key of that, in PEM.
    #[must_use]
    pub fn tls(self, certificate: String, key: String) -> PostgresLaunch {
        PostgresLaunch { identity: Some((certificate, key)), ..self.setting("ssl=on") }
    }

    /// With a clock that the test sets.
    #[must_use]
    pub fn wall_time(self, wall_time: &WallTime) -> PostgresLaunch {
        PostgresLaunch { variables: wall_time.variables().into(), ..self }
    }

    /// Starts it. It answers when this comes back.
    pub fn start(self) -> PostgresServer {
        for _ in 0..PORTS_TRIED {
            let address = Proxy::free_address();
            let folder = folder(self.is_durable);
            copy(&template(), &data(folder.path()));
            if let Some((certificate, key)) = &self.identity {
                for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                    write_private(&data(folder.path()).join(name), text);
                }
            }
            if let Some(process) = self.run(folder.path(), address) {
                return PostgresServer { process, folder, launch: self, address };
            }
        }
        panic!("PostgreSQL does not start at any port");
    }

    /// The process once it answers. None if it ended at once: its port was taken.
    fn run(&self, folder: &Path, address: SocketAddr) -> Option<Process> {
        let mut command = command("postgres", folder);
        command.arg("-D").arg(data(folder)).arg("-p").arg(address.port().to_string());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        let mut process = Process::start("postgres", &mut command, folder);
        let answers = until("PostgreSQL answers", || match process.ended() {
            Some(_) => Some(false),
            None => answers(address).then_some(true),
        });
        assert!(answers || process.stderr().contains("in use"), "PostgreSQL ended:\n{}", process.stderr());
        answers.then_some(process)
    }
}

impl PostgresServer {
    /// One as it usually is.
    pub fn start() -> PostgresServer {
        PostgresLaunch::default().start()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address for an ordinary user, with the password, and their database.
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{PASSWORD}@{}/{USER}", self.address)
    }

    /// Its directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process that has all the others as children.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What it has said.
    pub fn logs(&self) -> String {
        self.process.stderr()
    }

    /// What a statement answers, with `|` between columns. By somebody who may do everything, in the ordinary user's database.
    pub fn sql(&self, statement: &str) -> String {
        let mut psql = self.tool("psql", SUPERUSER);
        let done = run(psql.args(["-XtA", "-v", "ON_ERROR_STOP=1", "-d", USER, "-c", statement]));
        assert_eq!(done.code, Some(0), "{statement}: {}", done.stderr);
        done.stdout.trim_end().to_owned()
    }

    /// One of PostgreSQL's own tools, which finds this server and is let in as this user.
    pub fn tool(&self, name: &str, user: &str) -> Command {
        let mut command = Command::new(program(name));
        command.env("PGHOST", self.address.ip().to_string()).env("PGPORT", self.address.port().to_string());
        command.env("PGUSER", user).env("PGPASSWORD", PASSWORD).env("PGCONNECT_TIMEOUT", "10");
        command
    }

    /// Makes an empty database of the ordinary user's. Returns its address.
    pub fn new_database(&self, name: &str) -> String {
        self.sql(&format!("CREATE DATABASE {name} OWNER {USER}"));
        format!("postgres://{USER}:{PASSWORD}@{}/{name}", self.address)
    }

    /// Ends all of its processes at once, in the middle of whatever they do.
    pub fn kill(&mut self) {
        // Whoever is stopped starts no children that would be missed.
        let _ = kill_process(pid(self.process.pid()), Signal::STOP);
        let children = children(self.process.pid());
        self.process.kill();
        for child in &children {
            // An error means that it has ended already, as it does without its parent.
            let _ = kill_process(pid(*child), Signal::KILL);
        }
        until("PostgreSQL has ended", || children.iter().all(|child| !is_running(*child)).then_some(()));
    }

    /// Stops it where it is: connections stay, new ones are taken by the system, and nobody answers.
    pub fn freeze(&self) {
        self.process.signal(Signal::STOP);
        for child in children(self.process.pid()) {
            let _ = kill_process(pid(child), Signal::STOP);
        }
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        for child in children(self.process.pid()) {
            let _ = kill_process(pid(child), Signal::CONT);
        }
        self.process.signal(Signal::CONT);
    }

    /// Has it end in good order, without waiting for its clients, and starts it again at the same port.
    pub fn stop_and_start(&mut self) {
        self.process.signal(Signal::INT);
        self.process.wait();
        self.restart();
    }

    /// Starts it again at the same port, with what it has on disk. Whatever is left of it is ended first.
    pub fn restart(&mut self) {
        self.kill();
        let process = self.launch.run(self.folder.path(), self.address);
        self.process = process.unwrap_or_else(|| panic!("{} is taken", self.address));
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
        // Who is killed leaves a piece of shared memory behind, whose number stands behind its key in the seventh line. The next one
        // would remove it, but there is none.
        let left = fs::read_to_string(data(self.folder.path()).join("postmaster.pid")).unwrap_or_default();
        if let Some(number) = left.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
            let _ = run(Command::new("ipcrm").args(["-m", number]));
        }
    }
}

/// One of the programs of the newest version that is installed.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let found = versions.map(|version| version.path()).filter(|path| path.join("bin").join(name).exists());
    let newest = found.max_by_key(|path| version(path)).map(|path| path.join("bin").join(name));
    newest.unwrap_or_else(|| {
        panic!("no {name} under {VERSIONS}: run scripts/test-tools.sh once, which installs PostgreSQL")
    })
}

/// A program of it that runs as the user that it wants.
fn command(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(program(name));
    command.current_dir(folder).env("LC_ALL", "C.UTF-8");
    if let Some((user, group)) = user() {
        command.uid(user).gid(group);
    }
    command
}

/// Whom it runs as, if not as us: it does not run as root.
fn user() -> Option<(u32, u32)> {
    if !geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("the users of this machine");
    let user =
        users.lines().find(|line| line.starts_with("postgres:")).expect("a user postgres, as Debian has it");
    let mut fields = user.split(':').skip(2).map(|field| field.parse().expect("a number of a user"));
    Some((fields.next().expect("a user"), fields.next().expect("a group")))
}

/// A directory of our own in which it may write.
fn folder(is_on_disk: bool) -> TempDir {
    let room = statvfs(MEMORY).map_or(0, |system| system.f_bavail * system.f_frsize);
    let in_memory = || tempfile::tempdir_in(MEMORY).ok();
    let folder = if is_on_disk || room < MEMORY_BYTES_MIN { None } else { in_memory() };
    let folder = folder.unwrap_or_else(|| tempfile::tempdir().expect("a temporary directory"));
    if let Some((user, group)) = user() {
        chown(folder.path(), Some(user), Some(group)).expect("a directory of our own");
    }
    folder
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).expect("a file in a directory of our own");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a file of our own");
    if let Some((user, group)) = user() {
        chown(path, Some(user), Some(group)).expect("a file of our own");
    }
}

fn copy(from: &Path, to: &Path) {
    let done = run(Command::new("cp").arg("-a").arg(from).arg(to));
    assert_eq!(done.code, Some(0), "{} cannot be copied: {}", from.display(), done.stderr);
}

/// What every server begins with. Several may make it at the same time: one of them comes first, and that is what all have from then on.
fn template() -> PathBuf {
    let version = program("postgres").components().rev().nth(2).map(|part| part.as_os_str().to_owned());
    let version = version.expect("a directory of the version").to_string_lossy().into_owned();
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    // Whoever runs the tests owns it, so that another user does not find what they cannot read.
    let finished = target.join(format!("{TEMPLATE}-{version}-{}", geteuid().as_raw()));
    if !finished.exists() {
        let folder = folder(false);
        initdb(folder.path());
        fs::create_dir_all(&target).expect("the directory of what is built");
        let part = tempfile::tempdir_in(&target).expect("a directory among what is built");
        copy(&data(folder.path()), &data(part.path()));
        // An error means that another was faster.
        let _ = fs::rename(data(part.path()), &finished);
    }
    finished
}

fn initdb(folder: &Path) {
    let password = folder.join("password");
    write_private(&password, PASSWORD);
    let mut initdb = command("initdb", folder);
    initdb.arg("-D").arg(data(folder)).args(["-U", SUPERUSER, "-E", "UTF8", "--no-sync", "--wal-segsize=1"]);
    initdb.args(["--locale=C.UTF-8", "--auth=scram-sha-256", "--pwfile"]).arg(&password);
    let done = run(&mut initdb);
    assert_eq!(done.code, Some(0), "initdb: {}{}", done.stdout, done.stderr);

    let mut single = command("postgres", folder);
    single.args(["--single", "-F", "-D"]).arg(data(folder)).arg(SUPERUSER);
    let child = single.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("PostgreSQL starts");
    let statements =
        format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'\nCREATE DATABASE {USER} OWNER {USER}\n");
    child.stdin.take().expect("a pipe").write_all(statements.as_bytes()).expect("it reads");
    let done = child.wait_with_output().expect("it ends");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Whether it takes connections.
fn answers(address: SocketAddr) -> bool {
    let mut ready = Command::new(program("pg_isready"));
    ready.args(["-q", "-t", "5", "-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    ready.status().is_ok_and(|status| status.success())
}

fn pid(number: u32) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).expect("the number of a process")
}

/// The processes that this one has started. Each has left its group, so that a signal for the group would miss them.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("a list of processes").flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers.filter(|number| parent_of(*number).is_some_and(|found| found == parent)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // After the name, which stands in brackets, come the state and the parent.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
