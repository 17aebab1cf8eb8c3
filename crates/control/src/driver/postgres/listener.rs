//! Hearing of changes: a connection that does nothing else.
//!
//! While it is away, notices are lost; so when it is there again, whoever waits is told that there may be something. A server that
//! hangs is found out by asking it now and then.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::connection::Connection;
use super::{Access, BACKOFF_MAX, BACKOFF_MIN};
use crate::error::DatabaseError;

/// So often the server is asked whether it is there.
const INTERVAL: Duration = Duration::from_secs(5);

/// Listens for ever.
pub(super) async fn listen(access: Arc<Access>, notices: watch::Sender<u64>) {
    let mut wait = BACKOFF_MIN;
    let mut is_told = false;
    loop {
        let (error, has_listened) = match open(&access, &notices).await {
            Ok(connection) => (follow(connection).await, true),
            Err(error) => (error, false),
        };
        if has_listened {
            wait = BACKOFF_MIN;
            is_told = false;
        }
        if !is_told {
            tracing::warn!(database = %access.place, %error, "changes of others are not heard of for now");
            is_told = true;
        }
        sleep(wait).await;
        wait = BACKOFF_MAX.min(wait * 2);
    }
}

async fn open(access: &Access, notices: &watch::Sender<u64>) -> Result<Connection, DatabaseError> {
    let mut connection = Connection::open(access, Some(notices.clone())).await?;
    connection.listen().await?;
    // What happened before was not heard of.
    notices.send_modify(|count| *count += 1);
    Ok(connection)
}

/// Why it ended.
async fn follow(mut connection: Connection) -> DatabaseError {
    loop {
        tokio::select! {
            () = sleep(INTERVAL) => {}
            () = connection.ended() => return DatabaseError::Away("the connection was closed".to_owned()),
        }
        if let Err(error) = connection.ping().await {
            return error;
        }
    }
}
