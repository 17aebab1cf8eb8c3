//! JSON lists with a bound: a long one is refused before there is room for it.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A list of at most so many.
#[derive(Debug)]
pub(crate) struct UpTo<const MAX: usize, T>(pub(crate) Vec<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Deserialize<'de> for UpTo<MAX, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UpTo<MAX, T>, D::Error> {
        struct OfList<const MAX: usize, T>(PhantomData<T>);

        impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for OfList<MAX, T> {
            type Value = UpTo<MAX, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<UpTo<MAX, T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    if items.len() == MAX {
                        return Err(A::Error::custom(format_args!("this list is longer than {MAX}")));
                    }
                    items.push(item);
                }
                Ok(UpTo(items))
            }
        }

        deserializer.deserialize_seq(OfList(PhantomData))
    }
}
