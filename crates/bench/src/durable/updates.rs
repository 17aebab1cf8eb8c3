//! What is usually done for a quota that must survive a crash: one UPDATE for each decision, committed to the disk.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{Connection, params};
use tokio_postgres::NoTls;

use crate::timer::Stopwatch;

const LIMIT: i64 = 1_000_000_000;
const TABLE: &str = "CREATE TABLE quota_updates (tenant BIGINT NOT NULL PRIMARY KEY, used BIGINT NOT NULL)";

/// A tenant that comes next: all of them in turn, and never one after its neighbour.
fn tenant(turn: u64, tenants: u64) -> i64 {
    i64::try_from(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % tenants).unwrap_or(0)
}

/// UPDATEs per second, one after the other, as the one writer that SQLite has.
pub(super) fn sqlite(path: &Path, tenants: u64, time: Duration) -> Result<f64, Box<dyn Error>> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute(TABLE, [])?;
    let filling = connection.transaction()?;
    for tenant in 0..tenants {
        filling.execute("INSERT INTO quota_updates VALUES (?, 0)", params![i64::try_from(tenant)?])?;
    }
    filling.commit()?;
    let mut update = connection.prepare(
        "UPDATE quota_updates SET used = used + 1 WHERE tenant = ? AND used + 1 <= ? RETURNING used",
    )?;
    let (stopwatch, mut updates) = (Stopwatch::start(), 0_u64);
    while stopwatch.elapsed_secs() < time.as_secs_f64() {
        let _used: i64 = update.query_row(params![tenant(updates, tenants), LIMIT], |row| row.get(0))?;
        updates += 1;
    }
    Ok(updates as f64 / stopwatch.elapsed_secs())
}

/// UPDATEs per second of so many connections.
pub(super) fn postgres(
    url: &str,
    tenants: u64,
    time: Duration,
    connections: usize,
) -> Result<f64, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("DROP TABLE IF EXISTS quota_updates").await?;
        client.batch_execute(TABLE).await?;
        let fill = format!("INSERT INTO quota_updates SELECT n, 0 FROM generate_series(0, {}) AS n", tenants - 1);
        client.batch_execute(&fill).await?;
        let (stopwatch, updates) = (Stopwatch::start(), Arc::new(AtomicU64::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..connections {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let updates = Arc::clone(&updates);
            tasks.spawn(async move {
                let update = client
                    .prepare("UPDATE quota_updates SET used = used + 1 WHERE tenant = $1 AND used + 1 <= $2 RETURNING used")
                    .await?;
                while stopwatch.elapsed_secs() < time.as_secs_f64() {
                    let turn = updates.fetch_add(1, Ordering::Relaxed);
                    client.query_one(&update, &[&tenant(turn, tenants), &LIMIT]).await?;
                }
                Ok::<(), tokio_postgres::Error>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(updates.load(Ordering::Relaxed) as f64 / stopwatch.elapsed_secs())
    })
}
