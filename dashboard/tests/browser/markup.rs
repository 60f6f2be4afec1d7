//! The check of HTML accepts a page as it should be, and finds each fault.

use crate::web::html::faults;

/// A page that is as it should be, before `</main>`.
const BEGIN: &str = r##"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Locks &amp; nodes</title>
<link rel="stylesheet" href="style.css">
<script src="live.js" defer></script>
</head>
<body>
<a href="#main">Skip</a>
<header><nav aria-label="Pages"><ul><li><a href="./">Locks</a></li></ul></nav></header>
<main id="main">
<h1>Locks</h1>
<table><caption>Locks</caption><thead><tr><th scope="col">Name</th></tr></thead>
<tbody><tr data-lock="&lt;script&gt;"><td>&lt;script&gt;<br></td></tr></tbody></table>
<form method="get" action="locks"><label for="q">Search</label><input id="q" name="q">
<label>Every <select name="refresh"><option value="0" selected>off</option></select></label>
<button type="submit">Go</button></form>
<svg role="img" aria-label="Runs" viewBox="0 0 10 10"><rect x="0" y="0" width="1" height="2"/><title>Runs</title></svg>
"##;
const END: &str =
    "</main><noscript><p>Pages refresh with JavaScript.</p></noscript></body></html>\n";

/// Content of a page that is a fault, and words of the fault.
const CONTENT: [(&str, &str); 43] = [
    ("<div>", "parse error"),
    ("<b><i>a</b></i>", "parse error"),
    ("<div/>", "parse error"),
    ("</b>", "parse error"),
    ("<p><div>a</div></p>", "parse error"),
    ("<table><caption>c</caption><div>a</div></table>", "parse error"),
    ("<p id=\"a\" id=\"b\">a</p>", "parse error"),
    ("<p class=\"a\"title=\"b\">a</p>", "parse error"),
    ("a &lt b", "parse error"),
    ("<a href=\"./\"><a href=\"./\">a</a></a>", "parse error"),
    ("<main></main>", "2 <main>"),
    ("<h1>Again</h1>", "2 <h1>"),
    ("<font>a</font>", "no element that pages use"),
    ("<svg role=\"img\"><image/></svg>", "no element that drawings use"),
    ("<p align=\"left\">a</p>", "has no attribute align"),
    ("<h2><div>a</div></h2>", "is a block in a phrase"),
    ("<p id=\"q\">a</p>", "the id \"q\" is there twice"),
    ("<p id=\"a b\">a</p>", "\"a b\" is no id"),
    ("<p aria-describedby=\"none\">a</p>", "an id that is not there: \"none\""),
    ("<label for=\"none\">a</label>", "an id that is not there: \"none\""),
    ("<a href=\"#none\">a</a>", "an id that is not there: \"none\""),
    ("<label>a</label>", "labels nothing"),
    ("<a>a</a>", "has href=None"),
    ("<button>a</button>", "has type=None"),
    ("<form action=\"break\"></form>", "has method=None"),
    ("<time>now</time>", "has datetime=None"),
    ("<svg><rect/></svg>", "neither hidden nor an image"),
    ("<img src=\"a.svg\">", "has no alt"),
    ("<fieldset><p>a</p></fieldset>", "begin with a legend"),
    ("<table><caption>c</caption><tbody><tr><td>a</td></tr></tbody></table>", "has no header cell"),
    ("<p style=\"color: red\">a</p>", "code in its attribute style"),
    ("<p onclick=\"a()\">a</p>", "code in its attribute onclick"),
    ("<style>p {}</style>", "is forbidden"),
    ("<iframe src=\"a\"></iframe>", "is forbidden"),
    ("<script>a()</script>", "a script in the page"),
    ("<script src=\"a.js\">a()</script>", "a script in the page"),
    ("<a href=\"javascript:a()\">a</a>", "not relative"),
    ("<a href=\"/admin/locks/\">a</a>", "not relative"),
    ("<a href=\"//host/a\">a</a>", "not relative"),
    ("<a href=\"a/../../b\">a</a>", "not relative"),
    ("<a href=\"\\a\">a</a>", "not relative"),
    ("<form method=\"post\" action=\"/break\"></form>", "not relative"),
    ("<img alt=\"\" src=\"https://host/a.svg\">", "not relative"),
];

/// A part of the page, what is there instead, and words of the fault.
const REPLACED: [(&str, &str, &str); 11] = [
    ("<!DOCTYPE html>", "", "parse error"),
    ("<!DOCTYPE html>", "<!DOCTYPE html4>", "parse error"),
    ("</table>", "", "parse error"),
    (" lang=\"en\"", "", "has lang=None"),
    ("Locks &amp; nodes", " ", "the titles of the page are"),
    ("<meta charset=\"utf-8\">", "", "no charset"),
    ("width=device-width", "width=500", "no viewport"),
    ("<h1>Locks</h1>", "", "0 <h1>"),
    (" scope=\"col\"", "", "has scope=None"),
    ("<caption>Locks</caption>", "", "neither a caption nor a region"),
    ("</head>", "<meta http-equiv=\"refresh\" content=\"1;url=a\"></head>", "a header in the page"),
];

#[test]
fn accepts_good_pages() {
    for content in [
        "",
        "<p>a &lt;b&gt; c <code>d</code></p><hr>",
        "<a href=\"lock?name=a:b//c\">a</a>",
        "<a href=\"?page=2\">a</a>",
        "<a href=\"#main\">a</a>",
    ] {
        assert_eq!(faults(&format!("{BEGIN}{content}{END}")), Vec::<String>::new(), "{content}");
    }
}

#[test]
fn finds_each_fault() {
    let page = format!("{BEGIN}{END}");
    let replaced = REPLACED.map(|(part, instead, words)| {
        assert!(page.contains(part), "the page has {part:?}");
        (page.replacen(part, instead, 1), words)
    });
    let content = CONTENT.map(|(content, words)| (format!("{BEGIN}{content}{END}"), words));
    for (page, words) in content.into_iter().chain(replaced) {
        let faults = faults(&page);
        let is_found = faults.iter().any(|fault| fault.contains(words));
        assert!(is_found, "{words:?} is not among {faults:#?} of {page}");
    }
}
