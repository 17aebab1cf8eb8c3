//! A PostgreSQL server, over a few connections.
//!
//! A connection is taken for a work and given back if it is still good; one that broke, or was left in the middle, is closed, and the server then forgets
//! what it had begun. Everything has an end: connecting, a statement, waiting for a connection. While the server is away, most
//! calls fail at once, and now and then one tries again.

mod connection;
mod listener;
mod protection;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::{Session, Work, WriteError};
use crate::address::PostgresAddress;
use crate::error::DatabaseError;
use crate::tls::Tls;
pub(super) use connection::Connection;
use protection::Protection;

/// So many connections are open at the most, besides the one that listens.
const CONNECTIONS_MAX: usize = 6;
/// So many of them read everything.
const SNAPSHOTS_MAX: usize = 2;
/// So often something is tried that others got in the way of, or whose connection had died while nobody used it.
const ATTEMPTS_MAX: u32 = 5;
/// After a server could not be reached, so long nobody tries again; twice as long each time, up to a limit.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// The most doublings that make sense between the two.
const BACKOFF_DOUBLINGS_MAX: u32 = 5;
/// A network that has died without a word is found out after three of the second, begun after the first.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_RETRIES: u32 = 3;

/// How the server is reached.
pub(crate) struct Access {
    config: tokio_postgres::Config,
    /// For a server on this machine that does not speak TLS.
    config_without_tls: tokio_postgres::Config,
    protection: Protection,
    tls: Tls,
    /// For the name in errors; without the password.
    place: String,
    connect_timeout: Duration,
    statement_timeout: Duration,
}

/// A server.
pub(crate) struct Postgres {
    access: Arc<Access>,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    snapshots: Semaphore,
    backoff: Mutex<Backoff>,
    notices: watch::Sender<u64>,
    listener: JoinHandle<()>,
}

/// When to try again.
#[derive(Default)]
struct Backoff {
    failures: u32,
    /// Until then nobody does, and this is what they hear.
    wait: Option<(Instant, DatabaseError)>,
}

/// How a transaction begins. A server that takes no changes says so at the first one.
const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

impl Access {
    pub(crate) fn new(
        address: &PostgresAddress,
        connect_timeout: Duration,
        statement_timeout: Duration,
    ) -> Result<Access, DatabaseError> {
        let protection = Protection::of(address);
        let mut config = tokio_postgres::Config::new();
        config
            .host(&address.host)
            .port(address.port)
            .user(&address.user)
            .dbname(&address.database)
            .application_name("tollgate")
            .connect_timeout(connect_timeout)
            .tcp_user_timeout(KEEPALIVE_IDLE)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES)
            .ssl_mode(protection.ssl_mode())
            .channel_binding(protection.channel_binding());
        if let Some(password) = &address.password {
            config.password(password.reveal());
        }
        let tls = Tls::new(address).map_err(DatabaseError::Settings)?;
        let mut config_without_tls = config.clone();
        config_without_tls
            .ssl_mode(tokio_postgres::config::SslMode::Disable)
            .channel_binding(tokio_postgres::config::ChannelBinding::Prefer);
        let place = address.to_string();
        Ok(Access { config, config_without_tls, protection, tls, place, connect_timeout, statement_timeout })
    }
}

impl Postgres {
    /// Reaches the server once, so that whoever opens it knows; and begins to listen.
    pub(crate) async fn open(access: Access) -> Result<Postgres, DatabaseError> {
        let access = Arc::new(access);
        let notices = watch::Sender::new(0);
        let first = Connection::open(&access, None).await?;
        if let Some(warning) = access.protection.warning() {
            tracing::warn!(database = %access.place, "{warning}");
        }
        let listener = tokio::spawn(listener::listen(Arc::clone(&access), notices.clone()));
        Ok(Postgres {
            access,
            idle: Mutex::new(vec![first]),
            permits: Semaphore::new(CONNECTIONS_MAX),
            snapshots: Semaphore::new(SNAPSHOTS_MAX),
            backoff: Mutex::default(),
            notices,
            listener,
        })
    }

    /// Changes when somebody may have changed something.
    pub(crate) fn noticed(&self) -> watch::Receiver<u64> {
        self.notices.subscribe()
    }

    pub(super) async fn write<W: Work>(&self, work: &W) -> Result<W::Out, WriteError<W::Out>> {
        self.run(Some(BEGIN_WRITE), work).await
    }

    pub(super) async fn snapshot<W: Work>(&self, work: &W) -> Result<W::Out, DatabaseError> {
        let _permit = self.snapshots.acquire().await.map_err(|_| closed())?;
        self.run(Some(BEGIN_SNAPSHOT), work).await.map_err(WriteError::into_error)
    }

    /// A work of one statement, which is a transaction by itself.
    pub(super) async fn single<W: Work>(&self, work: &W) -> Result<W::Out, DatabaseError> {
        self.run(None, work).await.map_err(WriteError::into_error)
    }

    /// Does it with a connection; again, if nothing came of it because of others or of a connection that was dead before.
    async fn run<W: Work>(&self, begin: Option<&str>, work: &W) -> Result<W::Out, WriteError<W::Out>> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (_permit, mut connection) = self.take().await.map_err(WriteError::Failed)?;
            let done = match begin {
                Some(begin) => connection.transact(begin, work).await,
                None => work.run(&mut Session::Postgres(&mut connection)).await.map_err(WriteError::Failed),
            };
            let error = match done {
                Ok(out) => {
                    self.give_back(connection);
                    return Ok(out);
                }
                Err(WriteError::Unsure(out, error)) => return Err(WriteError::Unsure(out, error)),
                Err(WriteError::Failed(error)) => error,
            };
            let was_dead = connection.is_closed() && connection.is_used();
            let is_again = was_dead || matches!(error, DatabaseError::Locked(_));
            if matches!(error, DatabaseError::Away(_) | DatabaseError::ReadOnly(_)) {
                // The others are no better: the server was away, hangs, or is not the one that takes changes any more.
                self.idle().clear();
            } else if connection.roll_back().await.is_ok() {
                self.give_back(connection);
            }
            if !is_again || attempt == ATTEMPTS_MAX {
                return Err(WriteError::Failed(error));
            }
        }
    }

    async fn take(&self) -> Result<(SemaphorePermit<'_>, Connection), DatabaseError> {
        let permit = timeout(self.access.statement_timeout, self.permits.acquire()).await;
        let permit = permit.map_err(|_| DatabaseError::Away("all connections to it are busy".to_owned()))?;
        let permit = permit.map_err(|_| closed())?;
        let idle = {
            let mut idle = self.idle();
            idle.retain(|connection| !connection.is_closed());
            idle.pop()
        };
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok((permit, connection))
    }

    fn give_back(&self, mut connection: Connection) {
        connection.set_used();
        if !connection.is_closed() {
            self.idle().push(connection);
        }
    }

    async fn connect(&self) -> Result<Connection, DatabaseError> {
        if let Some((until, error)) = &self.backoff().wait
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        let opened = Connection::open(&self.access, None).await;
        let mut backoff = self.backoff();
        match &opened {
            Ok(_) => *backoff = Backoff::default(),
            Err(error) => {
                let wait = BACKOFF_MIN * 2_u32.pow(backoff.failures.min(BACKOFF_DOUBLINGS_MAX));
                backoff.failures = backoff.failures.saturating_add(1);
                backoff.wait = Some((Instant::now() + wait.min(BACKOFF_MAX), error.clone()));
            }
        }
        opened
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

fn closed() -> DatabaseError {
    DatabaseError::Other("it was closed".to_owned())
}
