//! Finds a value inside of a JSON document without building the document.

use std::{cell::Cell, fmt};

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
    value::MapAccessDeserializer,
};
use serde_json::Number;

/// The result of a search in a document.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    Nothing,
    /// A string, or an integer in decimal digits.
    Name(String),
    /// A value of another kind.
    Other,
    /// A member on the path is a duplicate.
    Twice,
}

/// Follows `steps` into a document. The rest is only checked to be JSON and not stored, so that the
/// memory is bounded by the size of the body.
///
/// The error's text has only a position, and no part of the body.
pub(super) fn walk(body: &[u8], steps: &[String]) -> Result<Found, String> {
    let Ok(text) = std::str::from_utf8(body) else {
        return Err("the body is not JSON: it is not UTF-8".to_owned());
    };
    let is_object = Cell::new(false);
    let mut document = serde_json::Deserializer::from_str(text);
    let walk = Walk { steps, is_object: &is_object };
    match walk.deserialize(&mut document).and_then(|found| document.end().map(|()| found)) {
        Ok(found) => Ok(found),
        Err(_) if is_object.get() => Ok(Found::Other),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            Err(format!("the body is not JSON: see line {line}, column {column}"))
        }
    }
}

#[derive(Clone, Copy)]
struct Walk<'w> {
    steps: &'w [String],
    /// Set if the walk stopped at an object.
    is_object: &'w Cell<bool>,
}

impl Walk<'_> {
    /// Returns the result for a value without members or elements, depending on whether the path
    /// ends here.
    fn leaf(self, found: Found) -> Found {
        if self.steps.is_empty() { found } else { Found::Nothing }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Found, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Found, E> {
        Ok(self.leaf(Found::Other))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Found, E> {
        Ok(self.leaf(Found::Other))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Found, E> {
        Ok(self.leaf(Found::Name(number.to_string())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Found, E> {
        Ok(self.leaf(Found::Name(number.to_string())))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Found, E> {
        Ok(self.leaf(Found::Name(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Found, A::Error> {
        let (mut found, mut before) = (self.leaf(Found::Other), 0);
        if let Some((index, steps)) = self.steps.split_first().and_then(into_element) {
            while before < index && elements.next_element::<IgnoredAny>()?.is_some() {
                before += 1;
            }
            let element = elements.next_element_seed(Walk { steps, ..self })?;
            found = element.unwrap_or(Found::Nothing);
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Found, A::Error> {
        let Some((name, steps)) = self.steps.split_first() else {
            // If any crate of the program enables the feature `arbitrary_precision` of
            // `serde_json`, numbers are passed as objects too.
            let number = Number::deserialize(MapAccessDeserializer::new(members));
            let number = number.inspect_err(|_| self.is_object.set(true))?;
            let integer = match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => Some(number.to_string()),
                (_, number) => number.map(|number| number.to_string()),
            };
            return Ok(integer.map_or(Found::Other, Found::Name));
        };
        let mut found = None;
        while let Some(has_name) = members.next_key_seed(IsNamed(name))? {
            if has_name && found.is_none() {
                found = Some(members.next_value_seed(Walk { steps, ..self })?);
            } else {
                members.next_value::<IgnoredAny>()?;
                if has_name {
                    found = Some(Found::Twice);
                }
            }
        }
        Ok(found.unwrap_or(Found::Nothing))
    }
}

/// Returns the index that a step names: decimal digits without leading zeros (RFC 6901, section 4).
fn into_element<'s>((step, rest): (&String, &'s [String])) -> Option<(usize, &'s [String])> {
    let is_index = step.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = step.len() > 1 && step.starts_with('0');
    let index = step.parse().ok().filter(|_| is_index && !has_zeros)?;
    Some((index, rest))
}

/// Whether a member has this name.
struct IsNamed<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for IsNamed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for IsNamed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        Ok(self.0 == name)
    }
}
