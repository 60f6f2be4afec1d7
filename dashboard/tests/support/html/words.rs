//! Elements and attributes that HTML has, where they may be.

use super::{Note, tree::Tree};

/// Elements that pages may use. Add what is needed, unless it is obsolete.
const ELEMENTS: &[&str] = &[
    "a",
    "abbr",
    "article",
    "aside",
    "b",
    "bdi",
    "blockquote",
    "body",
    "br",
    "button",
    "caption",
    "cite",
    "code",
    "col",
    "colgroup",
    "data",
    "datalist",
    "dd",
    "del",
    "details",
    "dfn",
    "dialog",
    "div",
    "dl",
    "dt",
    "em",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "i",
    "img",
    "input",
    "ins",
    "kbd",
    "label",
    "legend",
    "li",
    "link",
    "main",
    "mark",
    "menu",
    "meta",
    "meter",
    "nav",
    "noscript",
    "ol",
    "optgroup",
    "option",
    "output",
    "p",
    "pre",
    "progress",
    "q",
    "s",
    "samp",
    "script",
    "search",
    "section",
    "select",
    "small",
    "span",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "u",
    "ul",
    "var",
    "wbr",
];

/// Elements inside an `svg`.
const DRAWING: &[&str] = &[
    "circle", "clippath", "defs", "desc", "ellipse", "g", "line", "path", "polygon", "polyline",
    "rect", "svg", "text", "title", "tspan", "use",
];

/// Attributes that any element may have, besides `data-…` and `aria-…`.
const GLOBAL: &[&str] = &[
    "accesskey",
    "autofocus",
    "class",
    "dir",
    "hidden",
    "id",
    "inert",
    "lang",
    "role",
    "spellcheck",
    "tabindex",
    "title",
    "translate",
];

/// Attributes of certain elements.
const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("a", &["download", "href", "hreflang", "rel", "target", "type"]),
    ("button", &["disabled", "form", "formaction", "formmethod", "name", "type", "value"]),
    ("col", &["span"]),
    ("colgroup", &["span"]),
    ("data", &["value"]),
    ("del", &["datetime"]),
    ("details", &["name", "open"]),
    ("fieldset", &["disabled", "form", "name"]),
    ("form", &["action", "autocomplete", "enctype", "method", "name", "novalidate"]),
    ("img", &["alt", "height", "src", "width"]),
    (
        "input",
        &[
            "autocomplete",
            "checked",
            "disabled",
            "enterkeyhint",
            "form",
            "inputmode",
            "list",
            "max",
            "maxlength",
            "min",
            "minlength",
            "name",
            "pattern",
            "placeholder",
            "readonly",
            "required",
            "size",
            "step",
            "type",
            "value",
        ],
    ),
    ("label", &["for"]),
    ("li", &["value"]),
    ("link", &["as", "href", "media", "rel", "sizes", "type"]),
    ("meta", &["charset", "content", "http-equiv", "media", "name"]),
    ("meter", &["high", "low", "max", "min", "optimum", "value"]),
    ("ol", &["reversed", "start", "type"]),
    ("optgroup", &["disabled", "label"]),
    ("option", &["disabled", "label", "selected", "value"]),
    ("output", &["for", "form", "name"]),
    ("progress", &["max", "value"]),
    ("script", &["async", "defer", "src", "type"]),
    ("select", &["autocomplete", "disabled", "form", "multiple", "name", "required", "size"]),
    ("td", &["colspan", "headers", "rowspan"]),
    (
        "textarea",
        &[
            "autocomplete",
            "cols",
            "disabled",
            "form",
            "maxlength",
            "name",
            "placeholder",
            "readonly",
            "required",
            "rows",
        ],
    ),
    ("th", &["abbr", "colspan", "headers", "rowspan", "scope"]),
    ("time", &["datetime"]),
];

/// Elements whose children must have certain names.
const CHILDREN: &[(&str, &[&str])] = &[
    ("ul", &["li"]),
    ("ol", &["li"]),
    ("menu", &["li"]),
    ("dl", &["dt", "dd", "div"]),
    ("table", &["caption", "colgroup", "thead", "tbody", "tfoot"]),
    ("thead", &["tr"]),
    ("tbody", &["tr"]),
    ("tfoot", &["tr"]),
    ("tr", &["td", "th"]),
    ("select", &["option", "optgroup", "hr"]),
    ("html", &["head", "body"]),
];

/// Elements that contain no block.
const PHRASES: &[&str] = &[
    "abbr", "b", "button", "cite", "code", "dfn", "em", "h1", "h2", "h3", "h4", "h5", "h6", "i",
    "kbd", "label", "legend", "mark", "p", "pre", "q", "s", "samp", "small", "span", "strong",
    "sub", "summary", "sup", "time", "u", "var",
];

const BLOCKS: &[&str] = &[
    "article",
    "aside",
    "blockquote",
    "div",
    "dl",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "ul",
];

pub(super) fn check(tree: &Tree, note: Note<'_>) {
    for (at, element) in tree.elements.iter().enumerate() {
        let name = element.name.as_str();
        let is_drawing = name == "svg" || tree.is_inside(at, &["svg"]);
        let known = if is_drawing { DRAWING } else { ELEMENTS };
        if !known.contains(&name) {
            note(element.line, format!("<{name}> is no element that pages use"));
        }
        for (place, (attribute, value)) in element.attributes.iter().enumerate() {
            if element.attributes[..place].iter().any(|(earlier, _)| earlier == attribute) {
                note(element.line, format!("<{name}> has {attribute} twice"));
            }
            if attribute == "id" && (value.is_empty() || value.contains(char::is_whitespace)) {
                note(element.line, format!("{value:?} is no id"));
            }
            if !is_drawing && !is_attribute(name, attribute) {
                note(element.line, format!("<{name}> has no attribute {attribute}"));
            }
        }
        if let Some((_, allowed)) = CHILDREN.iter().find(|(parent, _)| *parent == name) {
            for child in element.children.iter().map(|child| &tree.elements[*child]) {
                if !allowed.contains(&child.name.as_str()) {
                    note(child.line, format!("<{}> is in <{name}>", child.name));
                }
            }
            if !element.text.trim().is_empty() {
                note(element.line, format!("text is in <{name}>: {:?}", element.text.trim()));
            }
        }
        if BLOCKS.contains(&name)
            && let Some(phrase) = element.parent.map(|parent| tree.elements[parent].name.as_str())
            && PHRASES.contains(&phrase)
        {
            note(element.line, format!("<{name}> is in <{phrase}>"));
        }
    }
}

fn is_attribute(element: &str, name: &str) -> bool {
    let own = ATTRIBUTES.iter().find(|(known, _)| *known == element);
    name.starts_with("data-")
        || name.starts_with("aria-")
        || GLOBAL.contains(&name)
        || own.is_some_and(|(_, names)| names.contains(&name))
}
