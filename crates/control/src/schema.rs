//! The tables, and how they came to be what they are: migrations, each done once, in the same words on both databases.
//!
//! There are only BIGINT and TEXT. What texts are ordered by says so, since PostgreSQL would go by a language otherwise.

use crate::chain::Head;
use crate::driver::{Driver, Session, Value, Work};
use crate::error::DatabaseError;

/// What holds everything that there is one of: the schema, the fleet and its secret, and the head of the audit.
const SETTINGS: &str =
    "CREATE TABLE settings (name TEXT COLLATE BINARY NOT NULL PRIMARY KEY, value TEXT NOT NULL)";

/// What made each schema of the one before. A statement that was released is never touched again.
const MIGRATIONS: &[&[&str]] = &[DOCUMENTS, DURABLE, ACTS, SECRET, PAST_AND_SETTLEMENTS, REQUEST_IDS];

/// What operators decide.
const DOCUMENTS: &[&str] = &[
    "CREATE TABLE documents (
        kind TEXT COLLATE BINARY NOT NULL, id TEXT COLLATE BINARY NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
        changed_at BIGINT NOT NULL, changed_by TEXT NOT NULL, PRIMARY KEY (kind, id))",
    "CREATE TABLE audit (
        version BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL, who TEXT NOT NULL, role TEXT NOT NULL, action TEXT NOT NULL,
        kind TEXT COLLATE BINARY NOT NULL, id TEXT COLLATE BINARY NOT NULL, before TEXT, after TEXT,
        previous TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE INDEX audit_of_document ON audit (kind, id, version)",
    "CREATE TABLE repeats (
        who TEXT COLLATE BINARY NOT NULL, key TEXT COLLATE BINARY NOT NULL, fingerprint TEXT NOT NULL,
        version BIGINT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (who, key))",
    "CREATE INDEX repeats_by_age ON repeats (at)",
    "CREATE TABLE nodes (
        node TEXT COLLATE BINARY NOT NULL PRIMARY KEY, name TEXT NOT NULL, version BIGINT NOT NULL, rules TEXT NOT NULL,
        started_at BIGINT NOT NULL, seen_at BIGINT NOT NULL)",
];

/// What is counted: see [`crate::durable`]. Moments are microseconds since 1970, but the start of a window, which is in its ticks.
const DURABLE: &[&str] = &[
    "CREATE TABLE counters (
        key TEXT COLLATE BINARY NOT NULL PRIMARY KEY, window_start BIGINT NOT NULL, tick BIGINT NOT NULL, used BIGINT NOT NULL,
        over_at BIGINT NOT NULL, subject TEXT, rule TEXT, changed_at BIGINT NOT NULL)",
    "CREATE INDEX counters_by_end ON counters (over_at)",
    "CREATE TABLE leases (
        key TEXT COLLATE BINARY NOT NULL, number BIGINT NOT NULL, units BIGINT NOT NULL, counted_at BIGINT NOT NULL,
        deadline BIGINT NOT NULL, node TEXT NOT NULL, PRIMARY KEY (key, number))",
    "CREATE INDEX leases_by_deadline ON leases (deadline)",
    "CREATE TABLE usage_days (
        subject TEXT COLLATE BINARY NOT NULL, day BIGINT NOT NULL, rule TEXT COLLATE BINARY NOT NULL,
        counted BIGINT NOT NULL, given_back BIGINT NOT NULL, PRIMARY KEY (subject, day, rule))",
    "CREATE INDEX usage_days_by_age ON usage_days (day)",
    "CREATE TABLE commits (
        writer TEXT COLLATE BINARY NOT NULL PRIMARY KEY, number BIGINT NOT NULL, at BIGINT NOT NULL)",
];

/// Whether all that a change asks for beyond the database is done; and ways to what somebody has changed, or what was changed under an id of any kind. There is
/// none by time: it would be taken also where it finds nearly everything, which then has to be put in order for every page.
const ACTS: &[&str] = &[
    "ALTER TABLE repeats ADD COLUMN finished BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX audit_by_who ON audit (who, version)",
    "CREATE INDEX audit_by_id ON audit (id, version)",
];

/// The row of the secret of the fleet, still empty: see [`crate::fleet_secret`]. A user who may only update `settings` can then write
/// the secret.
const SECRET: &[&str] = &["INSERT INTO settings (name, value) VALUES ('fleet_secret', '')"];

/// What windows had counted that a counter has left: it comes back where the clock was wrong, and is set right. And the settlements of reservations: each counts once,
/// whichever server tells it.
const PAST_AND_SETTLEMENTS: &[&str] = &[
    "CREATE TABLE past_counters (
        key TEXT COLLATE BINARY NOT NULL, window_start BIGINT NOT NULL, tick BIGINT NOT NULL, used BIGINT NOT NULL,
        over_at BIGINT NOT NULL, PRIMARY KEY (key, window_start))",
    "CREATE INDEX past_counters_by_end ON past_counters (over_at)",
    "CREATE TABLE settlements (
        key TEXT COLLATE BINARY NOT NULL, number BIGINT NOT NULL, sender BIGINT NOT NULL, deadline BIGINT NOT NULL,
        PRIMARY KEY (key, number))",
    "CREATE INDEX settlements_by_deadline ON settlements (deadline)",
];

/// The ids of requests that were charged, so that a repeat is not charged again. `counted_at` is in ticks of the counter, `deadline` in microseconds.
const REQUEST_IDS: &[&str] = &[
    "CREATE TABLE request_ids (
        key TEXT COLLATE BINARY NOT NULL, number BIGINT NOT NULL, fingerprint BIGINT NOT NULL, users BIGINT NOT NULL,
        allowed BIGINT NOT NULL, counted_at BIGINT NOT NULL, deadline BIGINT NOT NULL, PRIMARY KEY (key, number))",
    "CREATE INDEX request_ids_by_deadline ON request_ids (deadline)",
];

/// Makes the tables what they have to be. Returns the fleet to which the database belongs.
pub(crate) async fn migrate(driver: &Driver) -> Result<String, DatabaseError> {
    // Who only has to look needs no right to change tables.
    let found = driver.snapshot(Migrate { fleet: None }).await?;
    if let Some(fleet) = found {
        return Ok(fleet);
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| DatabaseError::Other(format!("no randomness: {error}")))?;
    let fleet = format!("{:032x}", u128::from_be_bytes(random));
    let made = driver.write_plainly(Migrate { fleet: Some(fleet) }).await?;
    made.ok_or_else(|| DatabaseError::Corrupt("it has no fleet".to_owned()))
}

/// Looks which schema there is. If a new fleet has a name, brings it up to date.
struct Migrate {
    fleet: Option<String>,
}

impl Work for Migrate {
    /// The fleet, where all is up to date.
    type Out = Option<String>;

    async fn run(&self, session: &mut Session<'_>) -> Result<Option<String>, DatabaseError> {
        if self.fleet.is_some() {
            session.lock_schema().await?;
        }
        let known = MIGRATIONS.len() as u64;
        let found = if session.has_table("settings").await? { schema(session).await? } else { None };
        match (found, &self.fleet) {
            (Some(found), _) if found > known => return Err(DatabaseError::Newer { found, known }),
            (Some(found), _) if found == known => return setting(session, "fleet").await,
            (_, None) => return Ok(None),
            (None, Some(fleet)) => begin(session, fleet).await?,
            (Some(_), Some(_)) => {}
        }
        let done = usize::try_from(found.unwrap_or(0)).unwrap_or(usize::MAX);
        for statements in MIGRATIONS.iter().skip(done) {
            for statement in *statements {
                session.execute(statement, &[]).await?;
            }
        }
        let known = known.to_string();
        let set = "UPDATE settings SET value = ? WHERE name = 'schema'";
        session.execute(set, &[Value::Text(&known)]).await?;
        setting(session, "fleet").await
    }
}

async fn begin(session: &mut Session<'_>, fleet: &str) -> Result<(), DatabaseError> {
    session.execute(SETTINGS, &[]).await?;
    let head = Head::first(fleet).write();
    for (name, value) in [("schema", "0"), ("fleet", fleet), ("head", &head)] {
        let insert = "INSERT INTO settings (name, value) VALUES (?, ?)";
        session.execute(insert, &[Value::Text(name), Value::Text(value)]).await?;
    }
    Ok(())
}

async fn schema(session: &mut Session<'_>) -> Result<Option<u64>, DatabaseError> {
    let Some(text) = setting(session, "schema").await? else {
        return Err(DatabaseError::Settings(
            "it has a table `settings` that is not Tollgate's: use one of its own".to_owned(),
        ));
    };
    text.parse().map(Some).map_err(|_| DatabaseError::Corrupt("the number of its schema is none".to_owned()))
}

/// Something that there is one of.
pub(crate) async fn setting(session: &mut Session<'_>, name: &str) -> Result<Option<String>, DatabaseError> {
    let mut rows = session.query("SELECT value FROM settings WHERE name = ?", &[Value::Text(name)]).await?;
    rows.first_mut().map(|row| row.text(0)).transpose()
}
