//! What an error of Redis means for the call that met it.

use tollgate_store::authority::slots::SLOTS;

use crate::connection::error_code;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing was done: the script is not known by its name.
    LoadScript,
    /// Nothing was done, and soon it may be.
    TryAgain,
    /// Nothing was done: another node keeps the key, which one may not be known.
    GoTo(Option<Redirect>),
    /// Nothing was done, and for a while nothing will be.
    NotNow,
    /// Nothing was done, and this connection is of no use any more: the node is not the master, or has forgotten who we are.
    Reconnect,
    /// It cannot, or will not, and may have found that out half way.
    Refused,
}

/// Where a key is kept instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) slot: u16,
    /// Not said where it is the host that was asked.
    pub(crate) host: Option<String>,
    pub(crate) port: u16,
    /// For this once, because the key is on its way there.
    pub(crate) is_once: bool,
}

impl Verdict {
    pub(super) fn of(message: &str) -> Verdict {
        match error_code(message) {
            "NOSCRIPT" => Verdict::LoadScript,
            "TRYAGAIN" => Verdict::TryAgain,
            code @ ("MOVED" | "ASK") => match Redirect::read(message, code == "ASK") {
                None => Verdict::Refused,
                redirect => Verdict::GoTo(redirect),
            },
            // It has heard that it lost the slot, and not yet who has it.
            "CLUSTERDOWN" if message.contains("not served") => Verdict::GoTo(None),
            "BUSY" | "LOADING" | "CLUSTERDOWN" | "NOREPLICAS" => Verdict::NotNow,
            "READONLY" | "NOAUTH" | "WRONGPASS" | "MASTERDOWN" => Verdict::Reconnect,
            // A script that fails has an error of its own around the one that it met: that of its first writing.
            "ERR" if message.contains("READONLY") => Verdict::Reconnect,
            _ => Verdict::Refused,
        }
    }
}

impl Redirect {
    /// `MOVED 3999 127.0.0.1:6381`: the slot, and who keeps it.
    fn read(message: &str, is_once: bool) -> Option<Redirect> {
        let mut words = message.split_whitespace().skip(1);
        let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
        // The last colon: an IPv6 address comes without brackets.
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = Some(host).filter(|host| !host.is_empty() && *host != "?").map(str::to_owned);
        Some(Redirect { slot, host, port: port.parse().ok()?, is_once })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_who_keeps_a_key() {
        let check = |message: &str, host: Option<&str>, port: u16, is_once: bool| {
            let host = host.map(str::to_owned);
            let redirect = Redirect { slot: 3999, host, port, is_once };
            assert_eq!(Verdict::of(message), Verdict::GoTo(Some(redirect)));
        };
        check("MOVED 3999 127.0.0.1:6381", Some("127.0.0.1"), 6381, false);
        check("ASK 3999 node-2.example:6381", Some("node-2.example"), 6381, true);
        check("MOVED 3999 ::1:6381", Some("::1"), 6381, false);
        check("MOVED 3999 :6381", None, 6381, false);
        check("MOVED 3999 ?:6381", None, 6381, false);
        assert_eq!(Verdict::of("CLUSTERDOWN Hash slot not served"), Verdict::GoTo(None));
    }

    #[test]
    fn knows_what_was_certainly_not_done() {
        let check = |message: &str, verdict: Verdict| assert_eq!(Verdict::of(message), verdict, "{message}");
        check("BUSY Redis is busy running a script.", Verdict::NotNow);
        check("LOADING Redis is loading the dataset in memory", Verdict::NotNow);
        check("CLUSTERDOWN The cluster is down", Verdict::NotNow);
        check("TRYAGAIN Multiple keys request during rehashing of slot", Verdict::TryAgain);
        check("READONLY You can't write against a read only replica.", Verdict::Reconnect);
    }

    #[test]
    fn what_makes_no_sense_is_a_refusal() {
        let cases = [
            "MOVED",
            "MOVED x 1:2",
            "MOVED 16384 h:1",
            "MOVED 1 h",
            "ASK 1 h:99999",
            "",
            "OOM x",
            "NOPERM x",
        ];
        for message in cases {
            assert_eq!(Verdict::of(message), Verdict::Refused, "{message}");
        }
    }
}
