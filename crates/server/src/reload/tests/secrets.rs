//! Secrets that change: both files of a pair, or none.

use std::fs;
use std::sync::{Arc, Mutex};

use super::super::Kept;
use super::Folder;
use crate::secret::NamedFile;

/// Two files that belong together: they must say the same, as a certificate and its key would.
struct Pair {
    folder: Folder,
    kept: Kept,
    in_force: Arc<Mutex<Vec<u8>>>,
    /// Later than any file is young.
    now_ns: i128,
}

impl Pair {
    fn new(name: &str) -> Pair {
        let folder = Folder::new(name);
        for file in ["a", "b"] {
            fs::write(folder.0.join(file), "1").unwrap();
        }
        let files = ["a", "b"].map(|file| NamedFile { setting: "pair", path: folder.0.join(file) });
        let contents = Kept::read(&files).unwrap();
        let in_force = Arc::new(Mutex::new(contents[0].clone()));
        let (taken, second) = (Arc::clone(&in_force), files[1].clone());
        let kept = Kept::new("pairs", files.to_vec(), &contents, move |contents| {
            if contents[0] != contents[1] {
                return Err(second.unusable("does not belong to the first"));
            }
            *taken.lock().unwrap() = contents[0].clone();
            Ok(())
        });
        Pair { folder, kept, in_force, now_ns: i128::MAX }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.0.join(file), text).unwrap();
    }

    /// Looks, and says what came of it and what is in force then.
    fn look(&mut self, asked: bool) -> (Option<bool>, String) {
        let outcome = self.kept.refresh(asked, self.now_ns).map(|outcome| outcome.is_ok());
        (outcome, String::from_utf8(self.in_force.lock().unwrap().clone()).unwrap())
    }
}

#[test]
fn a_new_pair_is_taken_over_once_it_holds_still() {
    let mut pair = Pair::new("new-pair");
    assert_eq!([(); 3].map(|()| pair.look(false)), [(); 3].map(|()| (None, "1".to_owned())));
    pair.write("a", "22");
    assert_eq!(pair.look(false), (None, "1".to_owned()), "just changed");
    pair.write("b", "22");
    assert_eq!(pair.look(false), (None, "1".to_owned()), "changed again");
    assert_eq!(pair.look(false), (Some(true), "22".to_owned()));
    assert_eq!(pair.look(false), (None, "22".to_owned()));
}

#[test]
fn a_broken_pair_is_told_once_and_changes_nothing() {
    let mut pair = Pair::new("broken-pair");
    pair.look(false);
    pair.write("a", "22");
    assert_eq!(pair.look(false).0, None);
    assert_eq!(pair.look(false), (Some(false), "1".to_owned()));
    assert_eq!(pair.look(false), (None, "1".to_owned()), "told already");
    fs::remove_file(pair.folder.0.join("b")).unwrap();
    assert_eq!(pair.look(false).0, None);
    assert_eq!(pair.look(false), (Some(false), "1".to_owned()), "something else is wrong");
    assert_eq!(pair.look(false), (None, "1".to_owned()), "told already");
    pair.write("b", "22");
    assert_eq!(pair.look(false).0, None);
    assert_eq!(pair.look(false), (Some(true), "22".to_owned()));
}

#[test]
fn whoever_asks_need_not_wait_and_is_told() {
    let mut pair = Pair::new("asked-pair");
    assert_eq!(pair.look(true), (Some(true), "1".to_owned()), "the same again");
    pair.write("a", "2");
    assert_eq!(pair.look(true), (Some(false), "1".to_owned()));
    assert_eq!(pair.look(true), (Some(false), "1".to_owned()), "as often as asked");
    pair.write("b", "2");
    assert_eq!(pair.look(true), (Some(true), "2".to_owned()));
}

#[test]
fn a_file_that_has_only_just_changed_is_read_again() {
    let mut pair = Pair::new("young-pair");
    pair.now_ns = 0; // All files are younger than that.
    assert_eq!([(); 2].map(|()| pair.look(false).0), [None; 2]);
    // No new stamp, if the clock of the file system is coarse; and the same length.
    pair.write("a", "2");
    pair.write("b", "2");
    let outcomes = [(); 3].map(|()| pair.look(false).0);
    assert_eq!(outcomes.into_iter().flatten().collect::<Vec<_>>(), [true]);
}
