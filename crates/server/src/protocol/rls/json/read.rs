//! Requests in protobuf's JSON form: names of fields in either spelling, numbers also as strings, enums by name or by number, and
//! null for what is not there.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};

use crate::protocol::rls::decode::{DESCRIPTORS_MAX, ENTRIES_MAX};
use crate::protocol::rls::wire::{self, RateLimitUnit};
use crate::protocol::up_to::UpTo;

/// Reads a request. Nothing may follow it, and every field must be known.
pub(super) fn request(body: &[u8]) -> serde_json::Result<wire::RateLimitRequest> {
    let Object(request) = serde_json::from_slice::<Object<Request>>(body)?;
    Ok(wire::RateLimitRequest {
        domain: request.domain.unwrap_or_default(),
        descriptors: list(request.descriptors, descriptor),
        hits_addend: request.hits_addend.map_or(0, |Number(hits)| hits),
    })
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    domain: Option<String>,
    descriptors: Option<UpTo<DESCRIPTORS_MAX, Object<Descriptor>>>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Number<u32>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    entries: Option<UpTo<ENTRIES_MAX, Object<Entry>>>,
    limit: Option<Object<OwnLimit>>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Number<u64>>,
    #[serde(rename = "isNegativeHits", alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: Option<String>,
    value: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnLimit {
    #[serde(rename = "requestsPerUnit", alias = "requests_per_unit")]
    requests_per_unit: Option<Number<u32>>,
    unit: Option<Unit>,
}

fn list<const MAX: usize, T, U>(objects: Option<UpTo<MAX, Object<T>>>, convert: impl Fn(T) -> U) -> Vec<U> {
    let objects = objects.map_or_else(Vec::new, |UpTo(objects)| objects);
    objects.into_iter().map(|Object(object)| convert(object)).collect()
}

fn descriptor(descriptor: Descriptor) -> wire::RateLimitDescriptor {
    wire::RateLimitDescriptor {
        entries: list(descriptor.entries, |entry| wire::Entry {
            key: entry.key.unwrap_or_default(),
            value: entry.value.unwrap_or_default().into_bytes(),
        }),
        limit: descriptor.limit.map(|Object(limit)| wire::RateLimitOverride {
            requests_per_unit: limit.requests_per_unit.map_or(0, |Number(units)| units),
            unit: limit.unit.map_or(0, |Unit(unit)| unit),
        }),
        hits_addend: descriptor.hits_addend.map(|Number(hits)| hits),
        is_negative_hits: descriptor.is_negative_hits.unwrap_or_default(),
    }
}

/// A message: written as an object. (What is derived would also take a list of its fields.)
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// An unsigned number: 10, 10.0, 1e1 or any of these as a string.
struct Number<T>(T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number<T>, D::Error> {
        struct Digits<T>(PhantomData<T>);

        impl<T: TryFrom<u64>> Digits<T> {
            fn fit<E: Error>(&self, number: Option<u64>, unexpected: Unexpected<'_>) -> Result<Number<T>, E> {
                let fitting = number.and_then(|number| T::try_from(number).ok());
                fitting.map(Number).ok_or_else(|| E::invalid_value(unexpected, self))
            }
        }

        impl<T: TryFrom<u64>> Visitor<'_> for Digits<T> {
            type Value = Number<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number of {} bits", size_of::<T>() * 8)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Number<T>, E> {
                self.fit(Some(number), Unexpected::Unsigned(number))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Number<T>, E> {
                self.fit(u64::try_from(number).ok(), Unexpected::Signed(number))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Number<T>, E> {
                self.fit(whole(number), Unexpected::Float(number))
            }

            fn visit_str<E: Error>(self, number: &str) -> Result<Number<T>, E> {
                self.fit(written(number), Unexpected::Str(number))
            }
        }

        deserializer.deserialize_any(Digits(PhantomData))
    }
}

/// A number that its digits or its exponent make whole.
fn whole(number: f64) -> Option<u64> {
    const END: f64 = 18_446_744_073_709_551_616.0; // 2 to the power of 64, the first that is too large.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It is in range and whole.
    ((0.0..END).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// A number within a string is written as one that stands alone.
fn written(number: &str) -> Option<u64> {
    match serde_json::from_str::<serde_json::Number>(number).ok()? {
        _ if number.trim() != number => None,
        number => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
    }
}

/// A unit of time. One that does not exist may come as a number, for the engine to refuse, but not as a name.
struct Unit(i32);

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unit, D::Error> {
        struct NameOrNumber;

        impl Visitor<'_> for NameOrNumber {
            type Value = Unit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("SECOND, MINUTE, HOUR, DAY, MONTH or YEAR")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Unit, E> {
                let unexpected = |_| E::invalid_value(Unexpected::Unsigned(number), &self);
                i32::try_from(number).map(Unit).map_err(unexpected)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Unit, E> {
                let unexpected = |_| E::invalid_value(Unexpected::Signed(number), &self);
                i32::try_from(number).map(Unit).map_err(unexpected)
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Unit, E> {
                let unit = RateLimitUnit::from_str_name(name);
                let unexpected = || E::invalid_value(Unexpected::Str(name), &self);
                unit.map(|unit| Unit(unit.into())).ok_or_else(unexpected)
            }
        }

        deserializer.deserialize_any(NameOrNumber)
    }
}
