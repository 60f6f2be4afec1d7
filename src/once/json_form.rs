//! One form for all JSON texts that mean the same.

use std::fmt;

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Deeper documents have no such form.
const MAX_DEPTH: usize = 64;

/// Returns the document without white space and without what is at the JSON pointers `left_out`, given by their
/// steps; with its members in order, and its strings in one spelling. Numbers stay as they are written: a reader
/// may tell `1.0` from `1`.
///
/// `None` if it is not JSON, or is nested too deep.
pub(super) fn json_form(text: &str, left_out: &[&[String]]) -> Option<String> {
    let mut form = String::with_capacity(text.len());
    write(serde_json::from_str(text).ok()?, left_out, MAX_DEPTH, &mut form)?;
    Some(form)
}

fn write(value: &RawValue, left_out: &[&[String]], depth: usize, to: &mut String) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let text = value.get();
    match text.as_bytes().first()? {
        b'{' => {
            let Members(mut members) = serde_json::from_str(text).ok()?;
            // Stable: of members with one name, readers take the first or the last.
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            to.push('{');
            for (name, value) in members {
                let Some(left_out) = inside(left_out, &name) else { continue };
                to.push_str(&serde_json::to_string(&name).ok()?);
                to.push(':');
                write(value, &left_out, depth, to)?;
                to.push(',');
            }
            to.push('}');
        }
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            to.push('[');
            for (index, value) in elements.into_iter().enumerate() {
                if let Some(left_out) = inside(left_out, &index.to_string()) {
                    write(value, &left_out, depth, to)?;
                }
                to.push(',');
            }
            to.push(']');
        }
        b'"' => {
            let string: String = serde_json::from_str(text).ok()?;
            to.push_str(&serde_json::to_string(&string).ok()?);
        }
        _ => to.push_str(text),
    }
    Some(())
}

/// Returns what is left out inside of a member or an element; `None` if it is left out itself.
fn inside<'a>(left_out: &[&'a [String]], step: &str) -> Option<Vec<&'a [String]>> {
    let on_way = left_out.iter().filter_map(|path| path.split_first());
    let rest: Vec<_> = on_way.filter(|(first, _)| *first == step).map(|(_, rest)| rest).collect();
    (!rest.iter().any(|rest| rest.is_empty())).then_some(rest)
}

/// The members of an object, also those with the same name.
struct Members<'r>(Vec<(String, &'r RawValue)>);

impl<'r> Deserialize<'r> for Members<'r> {
    fn deserialize<D: Deserializer<'r>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'r> Visitor<'r> for MembersVisitor {
    type Value = Members<'r>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'r>>(self, mut map: A) -> Result<Members<'r>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn form(text: &str) -> Option<String> {
        json_form(text, &[])
    }

    #[test]
    fn same_meaning_has_one_form() {
        for (one, other) in [
            (r#"{"a": 1, "b": [true, null]}"#, "{\"b\":[true,null],\n\"a\":1}"),
            (r#"{"\u0061": "\u00e4\/"}"#, r#"{"a":"ä/"}"#),
            (r#"[{"x":{"b":1,"a":2}}]"#, r#"[{"x":{"a":2,"b":1}}]"#),
        ] {
            assert!(form(one).is_some(), "{one}");
            assert_eq!(form(one), form(other));
        }
    }

    #[test]
    fn other_meaning_has_another_form() {
        let texts = [
            "1",
            "1.0",
            "10e-1",
            "12345678901234567890123",
            "12345678901234567890124",
            r#""1""#,
            "[1]",
            "[1,2]",
            "[2,1]",
            "[12]",
            "[]",
            "{}",
            "null",
            "[null]",
            "[[]]",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"a":{}}"#,
            r#"{"a,":1}"#,
            r#"{"a":1,"b":1}"#,
            r#"{"A":1}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":2,"a":1}"#,
        ];
        for (index, one) in texts.iter().enumerate() {
            for other in &texts[index + 1..] {
                assert_ne!(form(one).unwrap(), form(other).unwrap(), "{one} and {other}");
            }
        }
    }

    #[test]
    fn other_text_has_no_form() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(form(&nested(MAX_DEPTH)).is_some());
        let deep = [nested(MAX_DEPTH + 1), nested(1 << 20), "[".repeat(1 << 20)];
        for text in ["", "{", "x", "1 2"] {
            assert_eq!(form(text), None, "{text}");
        }
        assert!(deep.iter().all(|text| form(text).is_none()));
    }

    #[test]
    fn left_out_values_do_not_count() {
        let paths = [vec!["at".to_owned()], vec!["items".into(), "1".into(), "at".into()]];
        let paths = paths.each_ref().map(Vec::as_slice);
        let form = |text| json_form(text, &paths).unwrap();
        let first = form(r#"{"at":1,"items":[{"at":1},{"at":2}]}"#);
        assert_eq!(first, form(r#"{"at":{"at":2},"items":[{"at":1},{"at":3}]}"#));
        assert_eq!(first, form(r#"{"items":[{"at":1},{}]}"#));
        assert_ne!(first, form(r#"{"items":[{"at":2},{}]}"#));
        assert_ne!(first, form(r#"{"items":[{"at":1}]}"#));
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(".*", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn form_follows_value((one, other) in (documents(), documents())) {
            let of = |value: &Value| form(&value.to_string()).unwrap();
            prop_assert_eq!(one == other, of(&one) == of(&other));
            prop_assert_eq!(of(&one), form(&serde_json::to_string_pretty(&one).unwrap()).unwrap());
        }
    }
}
