//! JSON of a given shape, and a good word on every other.
//!
//! serde's derived readers are lenient where it hurts (a list passes for an object) and terse about it. The types here are strict, say
//! what they expect, and have bounds.

use std::fmt;
use std::marker::PhantomData;
use std::str;
use std::time::Duration;

use axum::Json;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use tollgate::core::{Span, Tick};
use tollgate::policy::Unit;

use crate::protocol::http::problem::Problem;
pub(super) use crate::protocol::up_to::UpTo;

/// An object, and nothing that could be read as one.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

/// A number of units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count(pub(super) u64);

/// A length of time: a number of seconds, or a text such as `10m`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length(pub(super) Span);

/// A unit of time by its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeUnit(pub(super) Unit);

/// Reads a body as `T`. If that fails it is read again as `Owned`, the same with strings of its own, to find out where:
/// keeping track of that while reading would slow down those who ask rightly.
pub(super) fn read<'a, T, Owned>(body: &'a [u8], how: &str) -> Result<T, Problem>
where
    T: Deserialize<'a>,
    Owned: DeserializeOwned,
{
    match serde_json::from_slice::<Object<T>>(body) {
        Ok(Object(fields)) => Ok(fields),
        Err(error) => Err(explain::<Owned>(body, &error, how)),
    }
}

#[cold]
fn explain<Owned: DeserializeOwned>(body: &[u8], error: &serde_json::Error, how: &str) -> Problem {
    if body.trim_ascii().is_empty() {
        return Problem::bad_request(format!("the body is empty: {how}"));
    }
    if let Err(error) = str::from_utf8(body) {
        let at = error.valid_up_to();
        return Problem::bad_request(format!("the body is not UTF-8 from byte {at} on: {how}"));
    }
    if !body.trim_ascii().starts_with(b"{") {
        return Problem::bad_request(format!("the body is not a JSON object: {how}"));
    }
    // The same error once more, with the path of the field in front; what axum puts before that is left out.
    let placed = Json::<Object<Owned>>::from_bytes(body).err().map(|rejection| rejection.body_text());
    let placed = placed.as_deref().and_then(|text| text.split_once(": "));
    let placed = placed.map_or_else(|| error.to_string(), |(_, placed)| placed.to_owned());
    if error.is_data() {
        return Problem::bad_request(placed);
    }
    Problem::bad_request(format!("the body is not JSON: {placed}; {how}"))
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct OfObject<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfObject<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(OfObject(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        struct OfNumber;

        impl Visitor<'_> for OfNumber {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from 0 to {}", u64::MAX)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
                Ok(Count(number))
            }
        }

        deserializer.deserialize_u64(OfNumber)
    }
}

/// The units of a length of time, in nanoseconds.
const LENGTHS: [(&str, u64); 5] = [
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// A sum of whole numbers with units. What is longer than any span can be is the longest.
fn length(text: &str) -> Option<Span> {
    let (mut rest, mut total_ns) = (text, 0_u64);
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, next) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let (_, unit_ns) = LENGTHS.iter().find(|(name, _)| *name == unit)?;
        // Digits only, so that what cannot be read is too long.
        let number = if digits.is_empty() { return None } else { digits.parse().unwrap_or(u64::MAX) };
        total_ns = total_ns.saturating_add(number.saturating_mul(*unit_ns));
        rest = next;
    }
    (!text.is_empty()).then(|| Span::from_ticks(total_ns))
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Length, D::Error> {
        struct OfLength;

        impl Visitor<'_> for OfLength {
            type Value = Length;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds, or a length of time such as \"90s\", \"10m\" or \"1h30m\"")
            }

            fn visit_u64<E: Error>(self, seconds: u64) -> Result<Length, E> {
                Ok(Length(Span::from_ticks(seconds.saturating_mul(1_000_000_000))))
            }

            fn visit_f64<E: Error>(self, seconds: f64) -> Result<Length, E> {
                let duration = Duration::try_from_secs_f64(seconds);
                let span = duration.ok().map(|duration| Tick::NANOSECOND.span(duration).unwrap_or(Span::MAX));
                span.map(Length).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Float(seconds), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Length, E> {
                let span = length(text);
                span.map(Length).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(OfLength)
    }
}

impl<'de> Deserialize<'de> for TimeUnit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TimeUnit, D::Error> {
        struct OfName;

        impl Visitor<'_> for OfName {
            type Value = TimeUnit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "one of {}", Unit::ALL.map(Unit::name).join(", "))
            }

            /// Also in capitals, as protobuf's JSON writes them.
            fn visit_str<E: Error>(self, name: &str) -> Result<TimeUnit, E> {
                let unit = Unit::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name));
                unit.map(TimeUnit).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(name), &self))
            }
        }

        deserializer.deserialize_str(OfName)
    }
}
