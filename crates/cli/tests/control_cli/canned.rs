//! A server that answers what it was told to, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use tollgate_testkit::real::Finished;

use crate::{bare, tollgate};

/// What it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Method and path in a word.
    pub(crate) fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// What it answers.
#[derive(Clone, Debug)]
pub(crate) enum Canned {
    Answer {
        status: u16,
        fields: String,
        body: String,
    },
    /// It hangs up without a word.
    HangUp,
}

/// 200, with this.
pub(crate) fn ok(body: &Value) -> Canned {
    answer(200, "", &body.to_string())
}

/// 200, with this and its version.
pub(crate) fn tagged(version: u64, body: &Value) -> Canned {
    answer(200, &format!("etag: \"{version}\"\r\n"), &body.to_string())
}

/// A refusal.
pub(crate) fn problem(status: u16, title: &str, detail: &str) -> Canned {
    let body = json!({"type": "about:blank", "title": title, "status": status, "detail": detail});
    answer(status, "", &body.to_string())
}

pub(crate) fn missing() -> Canned {
    problem(404, "Not Found", "there is no such thing")
}

pub(crate) fn answer(status: u16, fields: &str, body: &str) -> Canned {
    Canned::Answer { status, fields: fields.to_owned(), body: body.to_owned() }
}

/// A command, answered with these in turn: what it left behind, and what it asked.
pub(crate) fn ask(arguments: &[&str], answers: Vec<Canned>) -> (Finished, Vec<Asked>) {
    ask_in(tempfile::tempdir().unwrap().path(), arguments, answers)
}

/// The same in a directory.
pub(crate) fn ask_in(folder: &Path, arguments: &[&str], answers: Vec<Canned>) -> (Finished, Vec<Asked>) {
    converse("127.0.0.1", arguments, answers, |arguments| tollgate(folder, arguments))
}

/// The same with no token in the environment.
pub(crate) fn ask_without_token(
    folder: &Path,
    arguments: &[&str],
    answers: Vec<Canned>,
) -> (Finished, Vec<Asked>) {
    converse("127.0.0.1", arguments, answers, |arguments| bare(folder, arguments))
}

/// The same of a server under an address that could be anybody's.
pub(crate) fn ask_elsewhere(
    folder: &Path,
    arguments: &[&str],
    answers: Vec<Canned>,
) -> (Finished, Vec<Asked>) {
    converse("0.0.0.0", arguments, answers, |arguments| bare(folder, arguments))
}

fn converse(
    host: &str,
    arguments: &[&str],
    answers: Vec<Canned>,
    tollgate: impl FnOnce(&[&str]) -> Finished,
) -> (Finished, Vec<Asked>) {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let server = format!("--server=http://{}", listener.local_addr().unwrap());
    let count = answers.len();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (answers, memory) = (Arc::new(Mutex::new(answers.into_iter())), Arc::clone(&asked));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream, &answers, &memory);
        }
    });
    let finished = tollgate(&[arguments, &[&server]].concat());
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), count, "{asked:#?}\n{finished:#?}");
    (finished, asked)
}

/// A command that succeeds, with nothing to complain about.
pub(crate) fn check(arguments: &[&str], answers: Vec<Canned>) -> (String, Vec<Asked>) {
    let (finished, asked) = ask(arguments, answers);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    (finished.stdout, asked)
}

fn serve(stream: TcpStream, answers: &Mutex<std::vec::IntoIter<Canned>>, memory: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        memory.lock().unwrap().push(asked);
        let Some(Canned::Answer { status, fields, body }) = answers.lock().unwrap().next() else { return };
        let length = body.len();
        let text = format!("HTTP/1.1 {status} Canned\r\n{fields}content-length: {length}\r\n\r\n{body}");
        if reader.get_mut().write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let first = line(reader)?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut fields = Vec::new();
    while let Some((name, value)) = line(reader)?.split_once(": ") {
        fields.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = fields.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { method, path, fields, body: String::from_utf8(body).ok()? })
}

fn line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let bytes = reader.read_line(&mut line).ok()?;
    (bytes > 0).then(|| line.trim_end().to_owned())
}
