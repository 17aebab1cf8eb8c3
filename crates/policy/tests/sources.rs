//! Files and directories of rules.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_policy::{Source, rule_files, sources};

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("tollgate-sources-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The files of rules, without what all of them begin with.
    fn files(&self) -> Vec<String> {
        let files = rule_files(&self.0).unwrap();
        files.iter().map(|path| path.strip_prefix(&self.0).unwrap().display().to_string()).collect()
    }

    /// What is said of a path inside.
    fn said(&self, path: &Path) -> String {
        sources(path).unwrap_err().to_string().replace(&self.0.display().to_string(), "DIR")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn one_file_of_any_name() {
    let directory = Directory::new("one");
    let path = directory.write("rules.txt", "domain: shop");
    assert_eq!(sources(&path).unwrap(), [Source::new(path.display().to_string(), "domain: shop")]);
}

#[test]
fn files_of_a_directory_sorted_by_name() {
    let directory = Directory::new("many");
    for name in [
        "b.yaml",
        "a.yml",
        "c.json",
        "plain",
        "D.YAML",
        ".hidden.yaml",
        "notes.md",
        "a.yaml.bak",
        "inner/x.yaml",
    ] {
        directory.write(name, name);
    }
    let found: Vec<_> = sources(&directory.0).unwrap().into_iter().map(|source| source.text).collect();
    assert_eq!(found, ["D.YAML", "a.yml", "b.yaml", "c.json", "inner/x.yaml", "plain"]);
}

#[test]
fn files_of_directories_inside() {
    let directory = Directory::new("nested");
    for name in [
        "z.yaml",
        "b/c/d.yaml",
        "b/c.yaml",
        "b.d/x.json",
        "b/notes.md",
        ".git/config",
        "..2026_01_01/z.yaml",
        "b/.hidden/y.yaml",
        "lost+found/y.yaml",
        "1/2/3/4/5/6/7/8/deep.yaml",
    ] {
        directory.write(name, name);
    }
    let expected = ["1/2/3/4/5/6/7/8/deep.yaml", "b/c/d.yaml", "b/c.yaml", "b.d/x.json", "z.yaml"];
    assert_eq!(directory.files(), expected);
    let texts: Vec<_> = sources(&directory.0).unwrap().into_iter().map(|source| source.text).collect();
    assert_eq!(texts, expected);
    directory.write("1/2/3/4/5/6/7/8/9/deeper.yaml", "");
    insta::assert_snapshot!(directory.said(&directory.0), @r"
    DIR/1/2/3/4/5/6/7/8/9: directories of rules are nested more than 8 deep
       = move its files up
    ");
}

#[cfg(unix)]
#[test]
fn links_to_directories() {
    use std::os::unix::fs::symlink;
    let directory = Directory::new("links");
    directory.write("..2026_01_01/sub/shop.yaml", "domain: shop");
    symlink("..2026_01_01", directory.0.join("..data")).unwrap();
    symlink("..data/sub", directory.0.join("sub")).unwrap();
    assert_eq!(directory.files(), ["sub/shop.yaml"]);
    // In a circle, and to where another has led already.
    symlink(&directory.0, directory.0.join("..data/sub/circle")).unwrap();
    symlink("sub", directory.0.join("twin")).unwrap();
    assert_eq!(directory.files(), ["sub/shop.yaml"]);
}

#[test]
fn too_many_files() {
    let directory = Directory::new("count");
    for i in 0..10_000 {
        directory.write(&format!("{}/{i}", i % 7), "");
    }
    assert_eq!(rule_files(&directory.0).unwrap().len(), 10_000);
    directory.write("one_more", "");
    insta::assert_snapshot!(directory.said(&directory.0), @r"
    DIR: the directory holds more than 10000 files of rules
       = name a directory that holds nothing but rules
    ");
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map() {
    let directory = Directory::new("map");
    directory.write("..2024_01_01/shop.yaml", "domain: shop");
    std::os::unix::fs::symlink("..2024_01_01", directory.0.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/shop.yaml", directory.0.join("shop.yaml")).unwrap();
    let found = sources(&directory.0).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].text, "domain: shop");
    std::os::unix::fs::symlink("..data/gone.yaml", directory.0.join("gone.yaml")).unwrap();
    assert_eq!(directory.said(&directory.0), "DIR/gone.yaml: there is no such file or directory");
}

#[test]
fn what_cannot_be_read() {
    let directory = Directory::new("bad");
    insta::assert_snapshot!(directory.said(&directory.0.join("nowhere.yaml")), @"DIR/nowhere.yaml: there is no such file or directory");
    insta::assert_snapshot!(directory.said(&directory.0), @r"
    DIR: the directory holds no rules
       = rules are in files that end in `.yaml`, `.yml` or `.json`, or have no extension; put one here
    ");
    directory.write("latin.yaml", b"domain: shop\n# caf\xe9\n");
    directory.write("large.yaml", vec![b'#'; Source::TEXT_BYTES_MAX + 1]);
    directory.write("fits.yaml", vec![b'#'; Source::TEXT_BYTES_MAX]);
    insta::assert_snapshot!(directory.said(&directory.0), @r"
    DIR/large.yaml: the file is larger than 4 MiB
       = put the rules into several files of one directory, one domain each

    DIR/latin.yaml: line 2 is not UTF-8 text (byte 18 of the file)
       = save the file in the encoding UTF-8
    ");
}
