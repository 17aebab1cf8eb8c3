//! Answers of HTTP/1 read as a client reads them. What may differ from one time to the next, times and leases, is read but not kept.

#[cfg(test)]
mod tests;

/// An answer has no more header fields.
const FIELDS_MAX: usize = 32;

/// Header fields that tell times.
const TIMES: [&str; 5] = ["date", "ratelimit", "ratelimit-reset", "retry-after", "x-ratelimit-reset"];

/// What comes before a time or a lease in a body.
const BEFORE_TIMES: [&str; 7] = [
    r#""retry_after":"#,
    r#""reset_at":"#,
    r#""reset_after":"#,
    r#""wait":"#,
    r#""durationUntilReset":"#,
    r#""lease":"#,
    "try again in ",
];

/// What the answers begin with for which a body was read.
const READ: [&str; 5] = [
    r#"{"allowed":"#,
    r#"{"released":"#,
    r#"{"overallCode":"#,
    r#"{"error":{"code":"bad_request""#,
    r#"{"error":{"code":"unknown_policy""#,
];

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    status: u16,
    /// In order.
    fields: Vec<(String, String)>,
    body: String,
}

impl Answer {
    /// Whether it says that there was no request, and nothing more.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.status, 400 | 414 | 431) && self.body.is_empty()
    }

    /// Whether it was given without a look at the body of the request.
    pub(super) fn may_be_the_last(&self) -> bool {
        !READ.iter().any(|start| self.body.starts_with(start))
    }
}

/// All answers of a stream. Panics if it is not a stream of answers, or ends within one.
pub(super) fn read_all(stream: &[u8]) -> Vec<Answer> {
    let mut rest = stream;
    let mut answers = Vec::new();
    while !rest.is_empty() {
        let answer = read(&mut rest);
        answers.push(answer.unwrap_or_else(|| panic!("no answer in \"{}\"", stream.escape_ascii())));
    }
    answers
}

fn read(rest: &mut &[u8]) -> Option<Answer> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(length) = head.parse(rest).ok()? else { return None };
    let (status, mut kept, mut body_length) = (head.code?, Vec::new(), 0);
    for field in head.headers {
        let (name, value) = (field.name.to_ascii_lowercase(), std::str::from_utf8(field.value).ok()?);
        match name.as_str() {
            "transfer-encoding" => return None,
            "content-length" => body_length = value.parse().ok()?,
            "date" => drop(httpdate::parse_http_date(value).ok()?),
            _ => {}
        }
        let value = if TIMES.contains(&name.as_str()) { "TIME" } else { value };
        kept.push((name, value.to_owned()));
    }
    kept.retain(|(name, _)| name != "content-length"); // Times have different lengths.
    kept.sort_unstable();
    *rest = &rest[length..];
    // The answer to HEAD tells the length of a body that it has not.
    if rest.is_empty() || rest.starts_with(b"HTTP/1.") {
        body_length = 0;
    }
    let (body, after) = rest.split_at_checked(body_length)?;
    *rest = after;
    Some(Answer { status, fields: kept, body: without_times(std::str::from_utf8(body).ok()?) })
}

fn without_times(body: &str) -> String {
    let mut body = body.to_owned();
    for before in BEFORE_TIMES {
        let mut at = 0;
        while let Some(found) = body[at..].find(before) {
            at += found + before.len();
            let value = body[at..].split([',', '}', ' ']).next().unwrap_or_default();
            if value != "null" {
                body.replace_range(at..at + value.len(), "TIME");
            }
        }
    }
    body.replace("TIME seconds", "TIME second")
}
