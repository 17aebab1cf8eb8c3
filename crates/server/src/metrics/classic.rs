//! The text format of Prometheus before `OpenMetrics`, for whoever does not ask for the newer one.
//!
//! The samples are the same. But here a counter is called the same in its description as in its samples, with `_total`: otherwise it
//! would be of no known type. There are no units, and no mark at the end.

/// Rewrites what is in the format of `OpenMetrics`.
pub(crate) fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        // The description comes before the type, and only the type says whether it is of a counter.
        let is_counter = |line: &str| line.starts_with("# TYPE ") && line.ends_with(" counter");
        let of_counter = is_counter(line)
            || line.starts_with("# HELP ") && lines.peek().is_some_and(|next| is_counter(next));
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let mut words = line.splitn(4, ' ');
        match (of_counter, words.next(), words.next(), words.next(), words.next()) {
            (true, Some(mark), Some(what), Some(name), Some(rest)) => {
                text.extend([mark, " ", what, " ", name, "_total ", rest]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}
