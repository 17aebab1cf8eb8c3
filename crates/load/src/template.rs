//! Messages that are encoded before the run: what is left to do for a request is to write its key's digits into them.
//!
//! A generator that shares a machine with what it measures must be cheap. All keys have the same length, so all messages of a load do,
//! and lengths that stand inside them stay right.

/// How many digits stand for a key.
pub(crate) const KEY_DIGITS: usize = 12;
/// What stands for the key in a text.
pub(crate) const KEY_MARK: &str = "{key}";

/// A message with holes for the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Where the digits of the key begin.
    holes: Vec<usize>,
}

impl Template {
    /// A text in which `{key}` stands for the key.
    pub(crate) fn of(text: &str) -> Template {
        let mut template = Template::default();
        for (index, part) in text.split(KEY_MARK).enumerate() {
            if index > 0 {
                template.holes.push(template.bytes.len());
                template.bytes.extend([b'0'; KEY_DIGITS]);
            }
            template.bytes.extend(part.as_bytes());
        }
        template
    }

    /// Its length, whichever key it is about.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Puts bytes behind it.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Puts another behind it.
    pub(crate) fn append(&mut self, other: &Template) {
        let shift = self.bytes.len();
        self.holes.extend(other.holes.iter().map(|hole| hole + shift));
        self.bytes.extend(&other.bytes);
    }

    /// Writes the message about a key.
    pub(crate) fn write(&self, key: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let digits = digits(key);
        for hole in &self.holes {
            out[start + hole..][..KEY_DIGITS].copy_from_slice(&digits);
        }
    }
}

fn digits(key: u64) -> [u8; KEY_DIGITS] {
    let mut digits = [b'0'; KEY_DIGITS];
    let mut rest = key;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    digits
}

#[cfg(test)]
mod tests;
