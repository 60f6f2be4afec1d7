//! Keys from the body of a form.

use std::sync::Arc;

use http::header::CONTENT_TYPE;

use super::{
    Key, RequestHead,
    body::{decode_first, read_body},
    decode::{FormValue, form_value},
    names::Names,
    source::{NoKey, sealed::Find},
};

const FORM: &str = "application/x-www-form-urlencoded";

/// Takes the name from a field of a form (`application/x-www-form-urlencoded`), which is present once, and not
/// empty: the `MessageSid` of a webhook from Twilio, the `trigger_id` of a command from Slack.
///
/// Names and values are decoded like queries: `+` is a space, and percent-encoding is decoded once.
///
/// A request whose body is not a form is rejected. An empty body counts as missing, which
/// [`optional()`](Key::optional) lets pass. The key needs the body, so a layer that reads only
/// heads does not accept it.
///
/// Source: WHATWG, *URL*, section 5.1 (`application/x-www-form-urlencoded` parsing).
///
/// ```
/// use tower_redlock::key::{self, BodyKey, RequestHead};
///
/// let key = key::form_field("MessageSid").prefixed("twilio:");
/// let request = http::Request::post("/sms")
///     .header("content-type", "application/x-www-form-urlencoded")
///     .body(())?;
/// let head = RequestHead::from(&request);
/// let resource = key.body_key(&head, b"MessageSid=SM1&Body=see+you").unwrap();
/// assert_eq!(resource.unwrap().to_string(), "twilio:SM1");
/// assert_eq!(key.body_key(&head, b"Body=").unwrap_err().to_string(), "the form has no field MessageSid");
/// # Ok::<(), http::Error>(())
/// ```
pub fn form_field(name: impl Into<Arc<str>>) -> Key<FormField> {
    Key::new(FormField { name: name.into() })
}

/// Takes the name from a field of a form. Created by [`form_field`].
#[derive(Clone, Debug)]
pub struct FormField {
    name: Arc<str>,
}

impl Find for FormField {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let name = &*self.name;
        let body = read_body(head, &format!("the form's field {name}"))?;
        if let Some(encoded) = decode_first(head) {
            return Err(encoded);
        }
        let kind = head.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let essence = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case(FORM) {
            return Err(NoKey::invalid(format!(
                "the body is not a form: its content-type is not {FORM}"
            )));
        }
        let Ok(form) = std::str::from_utf8(body) else {
            return Err(NoKey::invalid("the form is not UTF-8"));
        };
        match form_value(form, name) {
            FormValue::Absent => Err(NoKey::missing(format!("the form has no field {name}"))),
            FormValue::Twice => {
                Err(NoKey::invalid(format!("the form has the field {name} more than once")))
            }
            FormValue::Invalid => {
                Err(NoKey::invalid(format!("the form's field {name} is not UTF-8")))
            }
            FormValue::One(value) if value.is_empty() => {
                Err(NoKey::invalid(format!("the form's field {name} is empty")))
            }
            FormValue::One(value) => Ok(Names::One(value)),
        }
    }
}
