//! Division by a number that is known long before: a multiplication instead.
//!
//! A decision divides by its limit's interval or period, and a 64-bit division takes as long as the compare-and-swap that
//! stores the result.

/// A number to divide by, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Divisor {
    number: u64,
    /// The largest multiple of 1/2^64 that is below 1/number.
    reciprocal: u64,
}

impl Divisor {
    /// Zero counts as one: whoever builds a limit has refused it before.
    pub(crate) fn new(number: u64) -> Divisor {
        let number = number.max(1);
        Divisor { number, reciprocal: u64::MAX / number }
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.number
    }

    /// `floor(dividend / number)`.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // The high half of a product of two words is a word.
    pub(crate) fn divide(self, dividend: u64) -> u64 {
        let estimate = ((u128::from(dividend) * u128::from(self.reciprocal)) >> 64) as u64;
        // The reciprocal is too small by less than 2/2^64, so the estimate is the quotient or one less.
        let rest = dividend - estimate * self.number;
        estimate + u64::from(rest >= self.number)
    }

    /// `ceil(dividend / number)`.
    #[inline]
    pub(crate) fn divide_up(self, dividend: u64) -> u64 {
        let quotient = self.divide(dividend);
        quotient + u64::from(quotient * self.number != dividend)
    }

    /// The largest multiple of the number that is not above `value`.
    #[inline]
    pub(crate) fn round_down(self, value: u64) -> u64 {
        self.divide(value) * self.number
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(number: u64, dividend: u64) {
        let divisor = Divisor::new(number);
        assert_eq!(divisor.divide(dividend), dividend / number, "{dividend} / {number}");
        assert_eq!(divisor.divide_up(dividend), dividend.div_ceil(number), "{dividend} / {number}, up");
        assert_eq!(divisor.round_down(dividend), dividend - dividend % number);
    }

    #[test]
    fn agrees_with_division_at_the_edges() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit).wrapping_sub(1), 1 << bit, (1 << bit) + 1]);
        let edges: Vec<u64> = edges.chain([u64::MAX, u64::MAX - 1]).collect();
        for &number in edges.iter().filter(|&&number| number > 0) {
            for &dividend in &edges {
                check(number, dividend);
                let multiple = (dividend / number) * number;
                check(number, multiple);
                check(number, multiple.wrapping_sub(1));
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_division(number in 1..=u64::MAX, shift in 0..64_u32, dividend: u64) {
            check((number >> shift).max(1), dividend);
        }
    }
}
