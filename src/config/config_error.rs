//! An error about a value of a configuration, which it does not repeat.

use std::fmt::{self, Display};

use serde::de::{Error, Expected, Unexpected};

/// Maximum length of a name that is repeated in an error, in bytes.
const MAX_NAME: usize = 64;

/// What is wrong with a configuration, without any of its values: one of them may be a password that is in
/// the wrong place.
#[derive(Debug)]
pub(super) struct ConfigError {
    /// The setting, as `tls.ca`; empty for the configuration itself.
    path: String,
    problem: String,
}

impl ConfigError {
    /// Returns this error as one about a value of the table `name`.
    pub(super) fn at(mut self, name: &str) -> Self {
        self.path =
            if self.path.is_empty() { name.to_owned() } else { format!("{name}.{}", self.path) };
        self
    }

    fn new(problem: impl Into<String>) -> Self {
        Self { path: String::new(), problem: problem.into() }
    }
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for ConfigError {}

impl Error for ConfigError {
    /// For texts of this module, which repeat no value.
    fn custom<T: Display>(problem: T) -> Self {
        Self::new(problem.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = match expected.to_string().as_str() {
            // As of a variable of the environment that is read as a number.
            "a string" => "a text, in quotes".to_owned(),
            expected => expected.to_owned(),
        };
        Self::new(format!("expected {expected}, found {}", kind(found)))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {expected}"))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("expected {}", alternatives(expected)))
    }

    fn unknown_field(name: &str, expected: &'static [&'static str]) -> Self {
        // A name is repeated, so that a misspelling is seen, unless it can be a URL or a password.
        let is_name = |name: &str| {
            name.len() <= MAX_NAME
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        let name = if is_name(name) { format!(" `{name}`") } else { String::new() };
        Self::new(format!("unknown setting{name}, expected {}", alternatives(expected)))
    }
}

/// Returns what kind of value this is.
fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Signed(_) | Unexpected::Unsigned(_) | Unexpected::Float(_) => "a number",
        Unexpected::Char(_) | Unexpected::Str(_) => "a text",
        Unexpected::Unit | Unexpected::Option => "nothing",
        Unexpected::Seq => "a list",
        Unexpected::Map | Unexpected::StructVariant => "a table",
        _ => "something else",
    }
}

fn alternatives(expected: &[&str]) -> String {
    let quoted: Vec<_> = expected.iter().map(|name| format!("`{name}`")).collect();
    match &quoted[..] {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        several => format!("one of {}", several.join(", ")),
    }
}
