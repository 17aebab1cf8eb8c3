//! A trace of requests to a language model, replayed against a server: an estimate is reserved for each, the tokens that it really took are settled.
//!
//! Two limits are charged alike: a budget that denies, and a meter that is too large to. What the meter says is what was charged.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::Client;
use super::wait::holds_within;

/// Under which name the rules have them.
const DOMAIN: &str = "llm";
/// More than any trace has, and little enough that Redis counts it exactly.
const METER_UNITS: u64 = 1 << 40;
/// How long it may take until units that a server had in hand have come back to the count.
const RETURN_TIME: Duration = Duration::from_secs(90);

/// What one request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// Known beforehand.
    pub context: u64,
    /// Known only afterwards.
    pub generated: u64,
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug)]
pub struct TokenReplay {
    /// How many tokens are reserved for what is generated.
    pub generated_guess: u64,
    /// How many clients there are, each on a connection of its own.
    pub clients: usize,
    /// How many requests each of them has open at a time.
    pub open_each: usize,
}

/// What became of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenTotals {
    /// Requests that passed.
    pub admitted: u64,
    /// Requests that did not.
    pub denied: u64,
    /// The estimates of those that passed.
    pub reserved: u64,
    /// What servers say was given back of them.
    pub returned: u64,
    /// What servers say was booked beyond them.
    pub booked: u64,
    /// What those that passed have really cost.
    pub real: u64,
}

/// Reads `TIMESTAMP,ContextTokens,GeneratedTokens`, with a header.
pub fn read_token_rows(path: &Path) -> io::Result<Vec<TokenRow>> {
    let text = fs::read_to_string(path)?;
    let wrong = |at: usize| io::Error::other(format!("{}:{}: not a row of tokens", path.display(), at + 2));
    let rows = text.lines().skip(1).enumerate().map(|(at, line)| {
        let mut columns = line.split(',').skip(1).map(|column| column.trim().parse());
        match (columns.next(), columns.next()) {
            (Some(Ok(context)), Some(Ok(generated))) => Ok(TokenRow { context, generated }),
            _ => Err(wrong(at)),
        }
    });
    rows.collect()
}

/// Rules with a budget of so many tokens. `terms` is what both limits say besides, such as `period: 30d, algorithm: fixed_window`.
pub fn token_rules(budget: u64, terms: &str) -> String {
    format!(
        "domain: {DOMAIN}\ndescriptors:\n- key: tenant\n  rate_limits:\n  - {{name: budget, requests: {budget}, {terms}}}\n  - {{name: meter, requests: {METER_UNITS}, {terms}}}\n"
    )
}

impl TokenReplay {
    /// Replays a trace against servers that share a count, or against one: a reservation is settled where it was made.
    pub fn run(&self, servers: &[SocketAddr], rows: &[TokenRow]) -> TokenTotals {
        let mut totals = TokenTotals::default();
        thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients)
                .map(|client| {
                    let address = servers[client % servers.len()];
                    scope.spawn(move || self.client(address, rows.iter().skip(client).step_by(self.clients)))
                })
                .collect();
            for client in clients {
                totals.add(&client.join().expect("a client"));
            }
        });
        totals
    }

    fn client<'r>(&self, address: SocketAddr, rows: impl Iterator<Item = &'r TokenRow>) -> TokenTotals {
        let mut client = Client::connect(address).expect("a connection");
        let (mut totals, mut open) = (TokenTotals::default(), VecDeque::new());
        for row in rows {
            let estimate = row.context + self.generated_guess;
            let question = json!({ "hits_addend": estimate, "domain": DOMAIN, "descriptors": descriptors() });
            let reply = client.post("/v1/reserve", &question.to_string());
            if reply.status == 429 {
                totals.denied += 1;
                continue;
            }
            assert_eq!(reply.status, 200, "{}", reply.body);
            totals.admitted += 1;
            totals.reserved += estimate;
            totals.real += row.context + row.generated;
            open.push_back((read(&reply.body)["reservation"].clone(), row.context + row.generated));
            if open.len() >= self.open_each {
                settle(&mut client, open.pop_front(), &mut totals);
            }
        }
        while !open.is_empty() {
            settle(&mut client, open.pop_front(), &mut totals);
        }
        totals
    }
}

fn settle(client: &mut Client, open: Option<(Value, u64)>, totals: &mut TokenTotals) {
    let Some((reservation, cost)) = open else { return };
    let reply = client.post("/v1/settle", &json!({ "reservation": reservation, "cost": cost }).to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    let settled = read(&reply.body);
    assert_eq!(settled["charged"], cost);
    totals.returned += settled["returned"].as_u64().expect("a number");
    totals.booked += settled["booked"].as_u64().expect("a number");
}

impl TokenTotals {
    fn add(&mut self, other: &TokenTotals) {
        self.admitted += other.admitted;
        self.denied += other.denied;
        self.reserved += other.reserved;
        self.returned += other.returned;
        self.booked += other.booked;
        self.real += other.real;
    }
}

/// What the count of a server says is charged. Where it has units of it in hand, as many are missing until they have come back: so long is it asked
/// again, if it is not as much as `expected`.
pub fn charged_tokens(server: SocketAddr, expected: u64) -> u64 {
    let mut charged = 0;
    holds_within(RETURN_TIME, || {
        charged = charged_now(server);
        charged == expected
    });
    charged
}

fn charged_now(server: SocketAddr) -> u64 {
    let mut client = Client::connect(server).expect("a connection");
    let question = json!({ "domain": DOMAIN, "descriptors": descriptors() });
    let answer = read(&client.post("/v1/peek", &question.to_string()).body);
    let decisions = answer["decisions"].as_array().expect("decisions");
    let meter = decisions.iter().find(|decision| decision["name"] == "meter").expect("the meter");
    meter["limit"].as_u64().expect("a number") - meter["remaining"].as_u64().expect("a number")
}

fn descriptors() -> Value {
    json!([{ "entries": [{ "key": "tenant", "value": "acme" }] }])
}

fn read(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}
