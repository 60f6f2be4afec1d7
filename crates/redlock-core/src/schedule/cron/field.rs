//! One field of a cron expression.

use std::fmt::Display;

/// One field of an expression: its name and its values.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    low: u32,
    high: u32,
    /// Names of the values, from `low` on.
    names: &'static [&'static str],
}

pub(super) static SECOND: Field = Field { name: "second", low: 0, high: 59, names: &[] };
pub(super) static MINUTE: Field = Field { name: "minute", low: 0, high: 59, names: &[] };
pub(super) static HOUR: Field = Field { name: "hour", low: 0, high: 23, names: &[] };
pub(super) static DAY: Field = Field { name: "day of month", low: 1, high: 31, names: &[] };
pub(super) static MONTH: Field = Field {
    name: "month",
    low: 1,
    high: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// 7 is Sunday, as 0 is.
pub(super) static WEEKDAY: Field = Field {
    name: "day of week",
    low: 0,
    high: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

/// A field that can't be parsed, and the reason.
pub(super) type Fault = (&'static Field, String);

/// The values of a field, one bit each.
pub(super) type Values = u64;

/// Returns whether `values` contains `value`.
pub(super) const fn has(values: Values, value: i64) -> bool {
    values & 1 << value != 0
}

/// Returns the least of the values that is not below `from`.
pub(super) fn first_bit(values: Values, from: i64) -> Option<i64> {
    let rest = values & (Values::MAX << from);
    (rest != 0).then(|| i64::from(rest.trailing_zeros()))
}

/// Splits a list into its entries. An empty entry, or a star among others, is an error.
pub(super) fn entries(field: &str) -> impl Iterator<Item = Result<&str, String>> {
    field.split(',').map(move |entry| match entry {
        "" if field.is_empty() => Err("nothing comes after the +: write the days there".into()),
        "" => Err("it has an empty entry: leave out the comma".into()),
        "*" if field != "*" => {
            Err("* is part of a list, which it makes useless: write * alone".into())
        }
        _ => Ok(entry),
    })
}

impl Field {
    /// Returns the values of a list.
    pub(super) fn list(&'static self, field: &str) -> Result<Values, Fault> {
        entries(field)
            .map(|entry| entry.and_then(|entry| self.values(entry)))
            .try_fold(0, |all, values| Ok(all | values?))
            .map_err(|reason| (self, reason))
    }

    /// Returns the values of one entry of the field's list, in upper case: `*`, a number, a name or
    /// a range. `*` and a range may have a step. The error says what is wrong with the entry.
    pub(super) fn values(&self, entry: &str) -> Result<Values, String> {
        let (range, step) = match entry.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (entry, None),
        };
        let (first, last) = match (range.split_once('-'), step) {
            _ if range == "*" => (self.low, self.high),
            (Some((first, last)), _) => self.range(range, first, last)?,
            (None, None) => {
                let value = self.value(range)?;
                (value, value)
            }
            (None, Some(step)) if range.is_empty() => {
                return Err(format!("{entry} has no range: write */{step}"));
            }
            (None, Some(step)) => {
                let first = self.value(range)?;
                return Err(format!(
                    "{entry} has a step and no range: write {first}-{}/{step}",
                    self.high
                ));
            }
        };
        let step = step.map_or(Ok(1), |step| Self::step(step, first, last))?;
        let values = (first..=last).step_by(step).fold(0, |values, value| values | 1 << value);
        Ok(self.normal(values))
    }

    /// Parses a number or a name.
    pub(super) fn value(&self, text: &str) -> Result<u32, String> {
        if let Some(value) = self.named(text) {
            return Ok(value);
        }
        let (low, high) = (self.low, self.high);
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.no_value(text));
        }
        let value = text.parse().ok().filter(|value| (low..=high).contains(value));
        value.ok_or_else(|| format!("{text} is not from {low} to {high}"))
    }

    fn range(&self, range: &str, first: &str, last: &str) -> Result<(u32, u32), String> {
        let by_name = self.named(first).or(self.named(last)).is_some();
        let (first, last) = (self.value(first)?, self.value(last)?);
        if !self.is_weekday() {
            if first > last {
                let (low, high) = (self.low, self.high);
                return Err(backwards(range, format_args!("{first}-{high},{low}-{last}")));
            }
            return Ok((first, last));
        }
        // The name of Sunday may be the first or the last day of a range.
        let last = if by_name && last == 0 { 7 } else { last };
        if by_name && first % 7 == 0 && last == 7 {
            return Err(format!("{range} may be one day or a week: write SUN or *"));
        }
        match (first, last) {
            _ if first <= last => Ok((first, last)),
            (7, last) => Err(backwards(range, format_args!("0-{last}"))),
            (first, 0) => Err(backwards(range, format_args!("{first}-7"))),
            _ => Err(backwards(range, format_args!("{first}-6,0-{last}"))),
        }
    }

    fn step(step: &str, first: u32, last: u32) -> Result<usize, String> {
        if step.is_empty() || !step.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("{step:?} is no step: write a number after the /"));
        }
        match step.parse::<usize>() {
            Ok(0) => Err("the step is zero: write 1 or more".into()),
            Ok(number) if (first..=last).nth(number).is_some() => Ok(number),
            _ => Err(format!(
                "a step of {step} leads beyond {first}-{last} and leaves only {first}: write {first}, or use Schedule::every for a period"
            )),
        }
    }

    fn named(&self, text: &str) -> Option<u32> {
        let found = self.names.iter().position(|name| *name == text)?;
        Some(self.low + u32::try_from(found).ok()?)
    }

    const fn is_weekday(&self) -> bool {
        self.high == 7
    }

    const fn normal(&self, values: Values) -> Values {
        const SUNDAYS: Values = 1 | 1 << 7;
        if self.is_weekday() && values & SUNDAYS != 0 { (values | 1) & !(1 << 7) } else { values }
    }

    fn no_value(&self, text: &str) -> String {
        for other in [&MONTH, &WEEKDAY] {
            if other.named(text).is_some() {
                return format!("{text} is a {}: write it in that field", other.name);
            }
        }
        let (low, high) = (self.low, self.high);
        match (text, self.names) {
            ("?", _) => "? is not of cron: write *, and mind that Sunday is 0".into(),
            ("*", _) => "* stands alone or with a step: write * or */2".into(),
            (_, []) => format!("{text:?} is no number from {low} to {high}"),
            (_, names) => format!(
                "{text:?} is neither a number from {low} to {high} nor one of {}",
                names.join(", ")
            ),
        }
    }
}

fn backwards(range: &str, instead: impl Display) -> String {
    format!("{range} goes backwards: write {instead}")
}
