//! The check of HTML: it accepts a page as it should be, and finds each fault.

use crate::harness::html::faults;

/// A page that is as it should be. `{}` stands for the place where the cases put something.
const PAGE: &str = r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Locks &amp; nodes</title>
<link rel="stylesheet" href="style.css">
<link rel="icon" href="icon.svg" type="image/svg+xml">
<script src="live.js" defer></script>
</head>
<body>
<a href="\#main">Skip</a>
<header><nav aria-label="Pages"><ul><li><a href="./">Locks</a></li><li><a href="once?key=a%3Ab">Once</a></li></ul></nav></header>
<main id="main">
<h1>Locks</h1>
<section data-from="fleet" aria-labelledby="fleet"><h2 id="fleet">What the servers say</h2>
<table><caption>Locks</caption><thead><tr><th scope="col">Name</th></tr></thead>
<tbody><tr data-lock="&lt;script&gt;"><td>&lt;script&gt;<br></td></tr></tbody></table>
<form method="get" action="locks"><label for="q">Search</label><input type="search" id="q" name="q">
<label>Every <select name="refresh"><option value="0" selected>off</option></select></label>
<button type="submit">Go</button></form>
<svg role="img" aria-label="Runs" class="history" viewBox="0 0 10 10"><rect x="0" y="0" width="1" height="2"/><title>Runs</title></svg>
</section>
{}
</main>
<noscript><p>Pages refresh by themselves with JavaScript.</p></noscript>
</body>
</html>
"#;

fn page(part: &str) -> String {
    PAGE.replace(r"\#", "#").replace("{}", part)
}

/// Asserts that the page with this part has a fault of these words.
#[track_caller]
fn finds(part: &str, words: &str) {
    judge(&page(part), words);
}

/// Asserts the same for a page of which something is replaced.
#[track_caller]
fn finds_without(what: &str, instead: &str, words: &str) {
    let page = page("");
    assert!(page.contains(what), "{what}");
    judge(&page.replacen(what, instead, 1), words);
}

#[track_caller]
fn judge(page: &str, words: &str) {
    let faults = faults(page);
    assert!(faults.iter().any(|fault| fault.contains(words)), "{words:?} is not among {faults:#?}");
}

#[test]
fn accepts_a_good_page() {
    assert_eq!(faults(&page("")), Vec::<String>::new());
    assert_eq!(faults(&page("<p>a &lt;b&gt; c <code>d</code></p><hr>")), Vec::<String>::new());
}

#[test]
fn finds_unclosed_elements() {
    finds("<p>a", "</main> where <p> is open");
    finds("<ul><li>a</ul>", "</ul> where <li> is open");
    finds(
        "<table><caption>c</caption><tbody><tr><th scope=\"row\">a</tr></tbody></table>",
        "<th> is open",
    );
    finds("<div>", "</main> where <div> is open");
    finds("<b><i>a</b></i>", "</b> where <i> is open");
    finds("<div/>", "not closed by its slash");
    finds_without("</body>\n</html>", "", "never closed");
}

#[test]
fn finds_what_parsers_repair() {
    finds("</b>", "</b> where <main> is open");
    finds("<table><caption>c</caption><div>a</div></table>", "<div> is in <table>");
    finds("<p><div>a</div></p>", "<div> is in <p>");
    finds("<p id=\"a\" id=\"b\">a</p>", "uplicate");
    finds("<p class=\"a\"title=\"b\">a</p>", "Bad character");
    finds("a & b &lt c", "haracter reference");
    finds("<a href=\"./\"><a href=\"./\">a</a></a>", "is inside another");
    finds_without("<!DOCTYPE html>", "", "0 doctypes");
    finds_without("<!DOCTYPE html>", "<!DOCTYPE html4>", "doctype");
    finds("<font>a</font>", "<font> is no element");
    finds("<p align=\"left\">a</p>", "<p> has no attribute align");
}

#[test]
fn finds_a_bad_outline() {
    finds_without(" lang=\"en\"", "", "no lang");
    finds_without("Locks &amp; nodes", " ", "no title");
    finds_without("<meta charset=\"utf-8\">", "", "no charset");
    finds_without("width=device-width", "width=500", "no viewport");
    finds("<h1>Again</h1>", "2 <h1>");
    finds_without("<h1>Locks</h1>", "", "0 <h1>");
    finds("<h4>Deep</h4>", "<h4> follows a heading of level 2");
    finds("<h2></h2>", "<h2> is empty");
    finds("<p id=\"q\">a</p>", "the id \"q\" is there twice");
    finds("<p aria-describedby=\"none\">a</p>", "an id that is not there: \"none\"");
    finds("<a href=\"#none\">a</a>", "an id that is not there: \"none\"");
    finds("<nav><a href=\"./\">a</a></nav>", "has no name");
    finds("<main></main>", "2 <main>");
}

#[test]
fn finds_barriers() {
    finds("<input type=\"text\" name=\"a\">", "<input> has no label");
    finds("<select name=\"a\"><option>b</option></select>", "<select> has no label");
    finds("<label>a</label>", "labels nothing");
    finds("<a href=\"./\"> </a>", "<a> has no name");
    finds("<a>a</a>", "leads nowhere");
    finds("<button>a</button>", "does not say its type");
    finds("<form action=\"break\"></form>", "does not say its method");
    finds("<svg><rect/></svg>", "neither hidden nor an image");
    finds("<img src=\"a.svg\">", "has no alt");
    finds("<fieldset><p>a</p></fieldset>", "begin with a legend");
    finds("<p tabindex=\"3\">a</p>", "out of order");
    finds("<div aria-hidden=\"true\"><a href=\"./\">a</a></div>", "hides what can have the focus");
    finds_without(" scope=\"col\"", "", "<th> has no scope");
    finds_without("<caption>Locks</caption>", "", "neither a caption nor a name");
}

#[test]
fn finds_inline_style_and_script() {
    finds("<p style=\"color: red\">a</p>", "has style");
    finds("<p onclick=\"a()\">a</p>", "has onclick");
    finds("<style>p {}</style>", "<style> is in the page");
    finds("<script>a()</script>", "a script is in the page");
    finds("<script src=\"a.js\">a()</script>", "a script is in the page");
    finds("<a href=\"javascript:a()\">a</a>", "not relative");
    finds_without(
        "</head>",
        "<meta http-equiv=\"refresh\" content=\"1;url=a\"></head>",
        "a header is in",
    );
    finds("<iframe src=\"a\"></iframe>", "<iframe>");
}

#[test]
fn finds_addresses_not_relative() {
    for address in
        ["/admin/locks/", "//host/a", "https://host/a", "../a", "a/../../b", "", "\\a", "x:y/z"]
    {
        finds(&format!("<a href=\"{address}\">a</a>"), "not relative");
    }
    finds("<form method=\"post\" action=\"/break\"></form>", "not relative");
    finds("<img alt=\"\" src=\"/a.svg\">", "not relative");
    for address in ["./", "lock?name=a:b//c", "?page=2", "#main", "jobs"] {
        let page = page(&format!("<a href=\"{address}\">a</a>"));
        assert_eq!(faults(&page), Vec::<String>::new());
    }
}
