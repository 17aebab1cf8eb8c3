//! When the certificates in force end: a metric for alerts, and a warning in the log before it is too late.
//!
//! Certificates are replaced by other programs, and these fail silently. A server whose certificate has ended is refused by every client
//! at once, so its operator has to hear of it earlier.

use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use tollgate::core::{Span, Time};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::revocation_list::CertificateRevocationList;

use super::{CERTIFICATE, CLIENT_CA, CLIENT_CRL};

/// So long before the end of a certificate a warning is logged,
const WARN_BEFORE_S: i64 = 14 * 86_400;
/// and so often from then on.
const WARN_INTERVAL: Span = Span::from_ticks(86_400 * NS_PER_S);
const NS_PER_S: u64 = 1_000_000_000;

/// The first end among what one file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// The setting that names the file.
    pub(crate) file: &'static str,
    /// When, in seconds since 1970.
    pub(crate) not_after_s: i64,
}

/// When what is in force ends.
#[derive(Debug, Default)]
pub(crate) struct Expiries {
    ends: ArcSwap<Vec<Expiry>>,
    /// When the next warning is due, in ticks.
    next_warning: AtomicU64,
}

impl Expiries {
    /// Other files are in force. What is to be said about them is said soon.
    pub(crate) fn replace(&self, ends: Vec<Expiry>) {
        self.ends.store(ends.into());
        self.next_warning.store(0, Ordering::Relaxed); // orders nothing else
    }

    pub(crate) fn all(&self) -> Vec<Expiry> {
        self.ends.load().to_vec()
    }

    /// Warns of what ends soon, once per interval.
    pub(crate) fn warn(&self, now: Time) {
        for Expiry { file, not_after_s } in self.due_warnings(now) {
            let days_left = (not_after_s - now_s(now)).div_euclid(86_400);
            if not_after_s <= now_s(now) {
                tracing::warn!(
                    file,
                    days_left,
                    "a certificate or revocation list in force has ended: renew it"
                );
            } else {
                tracing::warn!(
                    file,
                    days_left,
                    "a certificate or revocation list in force ends soon: renew it"
                );
            }
        }
    }

    /// What there is to warn of now. Of several threads that ask, one is told.
    fn due_warnings(&self, now: Time) -> Vec<Expiry> {
        let next = self.next_warning.load(Ordering::Relaxed);
        let after = now.plus(WARN_INTERVAL).ticks();
        let is_due = now.ticks() >= next
            && self.next_warning.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !is_due {
            return Vec::new();
        }
        let ends_soon = |end: &Expiry| end.not_after_s <= now_s(now) + WARN_BEFORE_S;
        self.all().into_iter().filter(ends_soon).collect()
    }
}

/// The ends of the server's chain, of the clients' authorities and of the lists of revoked certificates: the first of each.
pub(super) fn ends(
    chain: &[CertificateDer<'_>],
    authorities: &[CertificateDer<'_>],
    lists: &[CertificateRevocationListDer<'_>],
) -> Vec<Expiry> {
    let first_of = |certificates: &[CertificateDer<'_>]| {
        certificates.iter().filter_map(|certificate| not_after_s(certificate)).min()
    };
    let first_list = lists.iter().filter_map(|list| next_update_s(list)).min();
    [(CERTIFICATE, first_of(chain)), (CLIENT_CA, first_of(authorities)), (CLIENT_CRL, first_list)]
        .into_iter()
        .filter_map(|(file, end)| Some(Expiry { file, not_after_s: end? }))
        .collect()
}

fn not_after_s(certificate: &[u8]) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// When the next list of revoked certificates was promised.
pub(super) fn next_update_s(list: &[u8]) -> Option<i64> {
    let (_, list) = CertificateRevocationList::from_der(list).ok()?;
    list.next_update().map(|time| time.timestamp())
}

pub(super) fn now_s(now: Time) -> i64 {
    i64::try_from(now.ticks() / NS_PER_S).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Span = Span::from_ticks(86_400 * NS_PER_S);
    const NOW: Time = Time::from_ticks(1_800_000_000 * NS_PER_S);

    #[test]
    fn a_certificate_that_ends_soon_is_warned_of_once_a_day_and_after_a_reload() {
        let end = |days: i64| Expiry { file: CERTIFICATE, not_after_s: now_s(NOW) + days * 86_400 };
        let expiries = Expiries::default();
        expiries.replace(vec![end(15)]);
        assert_eq!(expiries.due_warnings(NOW), []);
        expiries.replace(vec![end(15), end(14), end(-1)]);
        assert_eq!(expiries.due_warnings(NOW), [end(14), end(-1)]);
        assert_eq!(expiries.due_warnings(NOW), [], "it was said");
        assert_eq!(expiries.due_warnings(NOW.plus(DAY)), [end(15), end(14), end(-1)]);
        expiries.replace(vec![end(3)]);
        assert_eq!(expiries.due_warnings(NOW.plus(DAY)), [end(3)]);
        assert_eq!(expiries.all(), [end(3)]);
    }
}
