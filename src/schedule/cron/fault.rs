use croner::{errors::CronError, parser::CronParser};

/// The fields, in the order in which they are written.
const FIELDS: [&str; 6] = ["second", "minute", "hour", "day of month", "month", "day of week"];

/// What is wrong with an expression that the parser refused with `error`, naming the field.
pub(super) fn reason(parser: CronParser, expression: &str, error: &CronError) -> String {
    let fields: Vec<_> = expression.split_whitespace().collect();
    match &*fields {
        [] => return "it is empty".into(),
        [name] if name.starts_with('@') => {
            return "the names are @yearly, @monthly, @weekly, @daily and @hourly".into();
        }
        _ if !(5..=6).contains(&fields.len()) => {
            return format!("it has {} fields", fields.len());
        }
        _ => {}
    }
    let names = FIELDS.iter().skip(FIELDS.len() - fields.len());
    for (n, (name, field)) in names.zip(&fields).enumerate() {
        let mut alone = vec!["*"; fields.len()];
        alone[n] = field;
        if let Err(error) = parser.parse(&alone.join(" ")) {
            return format!("its {name} is {field:?}: {}", text(&error));
        }
    }
    text(error)
}

/// A list with nothing between two commas, which the parser lets pass.
pub(super) fn empty_entry(expression: &str) -> Option<String> {
    let empty = |field: &&str| field.split(',').any(str::is_empty);
    let field = expression.split_whitespace().find(empty)?;
    Some(format!("the list {field:?} has an empty entry"))
}

/// The parser's own words, as a part of our sentence.
fn text(error: &CronError) -> String {
    let text = match error {
        CronError::InvalidPattern(text)
        | CronError::IllegalCharacters(text)
        | CronError::ComponentError(text) => text.clone(),
        other => other.to_string(),
    };
    let mut text = text.trim_end_matches('.').replacen("CronPattern", "it", 1);
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    text
}
