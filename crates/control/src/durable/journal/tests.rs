//! Files of bookings that the database has not taken yet.
#![allow(clippy::unwrap_used)]

use tempfile::TempDir;
use tollgate_core::{Cost, FixedWindow, Limit, Rate, SharedLimit, Span};
use tollgate_store::authority::{Act, Question, SharedKey};

use super::super::owed::Condition;
use super::*;

fn batch(number: i64, units: &[u64]) -> Batch {
    let hourly = FixedWindow::new(Rate::new(100, Span::from_ticks(3_600_000_000_000)).unwrap());
    let limit = Arc::new(SharedLimit::new(&Limit::from(hourly)).unwrap());
    let owed = units.iter().map(|&units| {
        let act = Act::Book(Cost::new(units));
        let question = Question { key: SharedKey(1), limit: Arc::clone(&limit), act, account: None };
        Owed { question, since_us: 7, condition: Condition::Always }
    });
    Batch { number, doubt: (number == 3).then_some(17), owed: owed.collect() }
}

fn journals(folder: &TempDir) -> Journals {
    Journals { folder: folder.path().to_owned(), fleet: "fleet".into() }
}

/// Three batches in a file whose process has gone, and the path of the file.
fn left_behind(folder: &TempDir) -> (Vec<Batch>, PathBuf) {
    let batches = vec![batch(1, &[1, 2]), batch(2, &[]), batch(3, &[3])];
    let mut journal = journals(folder).create(&"0a".into()).unwrap();
    for batch in &batches {
        journal.append(batch).unwrap();
    }
    (batches, journal.path)
}

#[test]
fn what_a_process_left_behind_is_taken_over_once_and_deleted_when_told() {
    let folder = TempDir::new().unwrap();
    let (batches, path) = left_behind(&folder);
    let mut found = journals(&folder).take_over().unwrap();
    let (journal, read) = found.remove(0);
    assert_eq!((read, &*journal.writer), (batches, "0a"));
    assert!(journals(&folder).take_over().unwrap().is_empty(), "it has an owner now");
    journal.delete().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_file_whose_process_runs_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let mut journal = journals(&folder).create(&"0a".into()).unwrap();
    journal.append(&batch(1, &[1])).unwrap();
    assert!(journals(&folder).take_over().unwrap().is_empty());
    drop(journal);
    assert_eq!(journals(&folder).take_over().unwrap().len(), 1);
}

#[test]
fn a_file_that_is_owed_to_another_database_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let (_, path) = left_behind(&folder);
    let others = Journals { fleet: "another".into(), ..journals(&folder) };
    assert!(others.take_over().unwrap().is_empty());
    assert!(path.exists());
}

#[test]
fn wherever_a_file_was_cut_off_or_altered_the_whole_batches_before_are_read() {
    let folder = TempDir::new().unwrap();
    let (batches, path) = left_behind(&folder);
    let whole = fs::read(&path).unwrap();
    let header = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for at in header..whole.len() {
        fs::write(&path, &whole[..at]).unwrap();
        let (_, cut) = journals(&folder).take_over().unwrap().remove(0);
        assert!(cut.len() < batches.len() && batches.starts_with(&cut), "cut off at {at}");

        let mut altered = whole.clone();
        altered[at] ^= 1;
        fs::write(&path, &altered).unwrap();
        let (_, read) = journals(&folder).take_over().unwrap().remove(0);
        assert!(read.len() < batches.len() && batches.starts_with(&read), "altered at {at}");
    }
}
