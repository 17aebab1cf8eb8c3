//! SQLite where the disk, the file or another process is in the way: what is refused says so, and nothing is lost.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{NOW_MS, Small, Stand, check_verifies, fill, make, put};
use tollgate_control::{ChangeError, Database, DatabaseAddress, DatabaseError, DatabaseSettings, Kind};

async fn open(path: &Path) -> Result<Database, DatabaseError> {
    Database::open(DatabaseSettings::new(DatabaseAddress::Sqlite(path.to_owned()))).await
}

#[tokio::test]
async fn a_full_disk_refuses_changes_and_loses_none() {
    // Where nothing can be mounted, the same is shown with a limit of SQLite's own, among the tests of the driver.
    let Some(small) = Small::mount(4) else { return };
    let path = small.folder().join("tollgate.db");
    let database = open(&path).await.unwrap();
    let made = fill(&database).await;
    assert!(made > 0);
    assert_eq!(database.version().await, Ok(made), "what was refused has left something");
    let again = database.change(put(Kind::Quota, "more", &"y".repeat(200_000)), NOW_MS).await;
    let again = again.map(|changed| changed.version);
    assert!(matches!(&again, Err(ChangeError::Full(_))), "{again:?}");
    assert!(again.unwrap_err().to_string().ends_with("nothing was changed"));
    check_verifies(&database, made).await;

    small.resize(8);
    assert_eq!(make(&database, put(Kind::Quota, "more", "{}")).await.version, made + 1);
    check_verifies(&database, made + 1).await;
    drop(database);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[tokio::test]
async fn a_process_that_holds_the_file_is_waited_for_but_not_for_ever() {
    let stand = Stand::sqlite();
    let database = Arc::new(stand.open().await);
    let other = rusqlite::Connection::open(stand.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = tokio::spawn({
        let database = Arc::clone(&database);
        async move { database.change(put(Kind::Quota, "a", "{}"), NOW_MS).await }
    });
    // Meanwhile others read.
    assert_eq!(database.version().await, Ok(0));
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().version, 1);

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = database.change(put(Kind::Quota, "a", "{}"), NOW_MS).await;
    assert!(matches!(&refused, Err(ChangeError::Away(text)) if text.contains("locked")), "{refused:?}");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(make(&database, put(Kind::Quota, "a", "{}")).await.version, 2);
}

/// Another process that writes one change after the other leaves the file free only for moments.
#[tokio::test]
async fn a_process_that_writes_all_the_time_keeps_nobody_out() {
    let stand = Stand::sqlite();
    let database = stand.open().await;
    let stop = Arc::new(AtomicBool::new(false));
    let busy = std::thread::spawn({
        let (path, stop) = (stand.path(), Arc::clone(&stop));
        move || {
            let other = rusqlite::Connection::open(path).unwrap();
            other.busy_timeout(Duration::from_mins(1)).unwrap();
            while !stop.load(Ordering::Relaxed) {
                other.execute_batch("BEGIN IMMEDIATE").unwrap();
                std::thread::sleep(Duration::from_millis(4));
                other.execute_batch("COMMIT").unwrap();
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    for number in 0..30 {
        let changed = database.change(put(Kind::Quota, &format!("{number}"), "{}"), NOW_MS).await;
        assert!(changed.is_ok(), "{number}: {changed:?}");
    }
    stop.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    check_verifies(&database, 30).await;
}

#[tokio::test]
async fn reading_goes_on_while_all_is_read_and_written() {
    let stand = Stand::sqlite();
    let database = Arc::new(stand.open().await);
    let all = (0..3_000).map(|number| put(Kind::Quota, &format!("{number}"), "{}")).collect();
    assert!(database.change_many(all, NOW_MS).await.iter().all(Result::is_ok));
    let (mut at_first, mut count) = (None, 0);
    let handle = tokio::runtime::Handle::current();
    let inner = Arc::clone(&database);
    let head = database
        .load(|_| {
            count += 1;
            if at_first.is_none() {
                // In the middle of it, somebody writes and reads.
                let inner = Arc::clone(&inner);
                at_first = Some(handle.spawn(async move {
                    inner.change(put(Kind::Quota, "new", "{}"), NOW_MS).await.unwrap();
                    inner.document(Kind::Quota, "new").await.unwrap()
                }));
            }
        })
        .await;
    assert_eq!((head.map(|head| head.version), count), (Ok(3_000), 3_000));
    assert!(at_first.unwrap().await.unwrap().is_some());
}

#[tokio::test]
async fn a_file_that_is_none_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.db");
    std::fs::write(&path, "this is a letter and no database, ".repeat(100)).unwrap();
    let opened = open(&path).await.map(drop);
    assert!(matches!(opened, Err(DatabaseError::Corrupt(_))), "{opened:?}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("this is a letter"));

    let opened = open(&folder.path().join("no/such/folder.db")).await.map(drop);
    assert!(
        matches!(&opened, Err(DatabaseError::Settings(text)) if text.contains("folder.db")),
        "{opened:?}"
    );
    assert_eq!(
        Database::open(DatabaseSettings::new(DatabaseAddress::Off)).await.map(drop),
        Err(DatabaseError::Off)
    );
}

#[tokio::test]
async fn damage_in_the_middle_is_said_and_not_hidden() {
    let stand = Stand::sqlite();
    let database = stand.open().await;
    let all = (0..2_000).map(|number| put(Kind::Quota, &format!("{number}"), &"x".repeat(200))).collect();
    database.change_many(all, NOW_MS).await;
    drop(database);
    let connection = rusqlite::Connection::open(stand.path()).unwrap();
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    drop(connection);
    let mut bytes = std::fs::read(stand.path()).unwrap();
    let length = bytes.len();
    bytes[length / 3..length / 3 + 200_000].fill(0x5a);
    std::fs::write(stand.path(), bytes).unwrap();
    let found = match open(&stand.path()).await {
        Ok(database) => database.verify(None, |_| {}).await.map(drop).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let text = found.unwrap_err();
    assert!(text.contains("damaged") || text.contains("not what it was"), "{text}");
}

#[tokio::test]
async fn only_its_owner_may_read_the_file() {
    let stand = Stand::sqlite();
    let database = stand.open().await;
    make(&database, put(Kind::Quota, "a", "{}")).await;
    for end in ["", "-wal", "-shm"] {
        let mut file = stand.path().into_os_string();
        file.push(end);
        let rights = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(rights, 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn what_was_answered_survives_the_end_of_the_process() {
    let stand = Stand::sqlite();
    let database = stand.open().await;
    make(&database, put(Kind::Quota, "a", "{}")).await;
    // As if the process had ended here: nothing is closed in order, and another one finds the file and its log.
    let copy = tempfile::tempdir().unwrap();
    for end in ["", "-wal"] {
        let name = format!("tollgate.db{end}");
        std::fs::copy(stand.path().with_file_name(&name), copy.path().join(&name)).unwrap();
    }
    let found = open(&copy.path().join("tollgate.db")).await.unwrap();
    assert_eq!(found.version().await, Ok(1));
    check_verifies(&found, 1).await;
}

/// What a process closes of a file takes along all locks that the process has on it, and without them another one may take the log away.
#[tokio::test]
async fn a_file_that_is_opened_again_keeps_its_locks() {
    let stand = Stand::sqlite();
    let first = stand.open().await;
    make(&first, put(Kind::Quota, "a", "{}")).await;
    let inode = format!(":{} ", std::fs::metadata(stand.path()).unwrap().ino());
    let locks = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().filter(|line| line.contains(&inode)).count()
    };
    assert!(locks() > 0, "there is nothing to lose");
    let second = stand.open().await;
    assert!(locks() > 0, "they are gone");
    make(&second, put(Kind::Quota, "b", "{}")).await;
    check_verifies(&first, 2).await;
}

#[tokio::test]
async fn a_link_may_lead_to_a_file_that_is_not_there_yet() {
    let folder = tempfile::tempdir().unwrap();
    let (link, file) = (folder.path().join("link.db"), folder.path().join("file.db"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let database = open(&link).await.unwrap();
    make(&database, put(Kind::Quota, "a", "{}")).await;
    let rights = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(rights, 0o600);
}
