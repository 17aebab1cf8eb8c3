//! Nothing, ever, for nobody.

use super::Model;

#[derive(Debug)]
pub(crate) struct Blocked;

impl Model for Blocked {
    fn limit(&self) -> u128 {
        0
    }

    fn is_never(&self, _units: u128) -> bool {
        true
    }

    fn used(&self, _at: u128) -> u128 {
        0
    }

    fn take(&mut self, _units: u128, _at: u128) {}

    fn give_back(&mut self, _units: u128, _counted_at: u128, _at: u128) {}

    fn reset_after(&self, _at: u128) -> Option<u128> {
        Some(0)
    }
}
