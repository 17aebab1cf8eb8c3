//! stub
use crate::limit::Limit;
/// A share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// One of so many nodes.
    Nodes(u32),
    /// So many hundredths.
    Percent(u8),
}
impl Limit {
    /// stub
    #[must_use]
    pub fn share(&self, _share: Share) -> Limit {
        self.clone()
    }
    /// stub
    pub fn capacity(&self) -> u64 {
        self.decide(&mut self.fresh(), crate::Ask::peek(crate::Cost::ZERO, crate::Time::default())).limit
    }
}
