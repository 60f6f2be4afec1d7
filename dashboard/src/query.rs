//! The parameters of a request: of its address, or of a form.

/// Names and values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn parse(encoded: &[u8]) -> Self {
        Self(form_urlencoded::parse(encoded).into_owned().collect())
    }

    /// Returns the first value of this name without white space around it; `None` if it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.exact(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Returns the first value of this name as it is, since names of locks may begin with a space; `None` if
    /// it is empty.
    pub(crate) fn exact(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(other, _)| other == name).map(|(_, value)| &**value);
        value.filter(|value| !value.is_empty())
    }

    /// Returns the number of the page, by default 1.
    pub(crate) fn page(&self) -> usize {
        self.get("page").and_then(|page| page.parse().ok()).unwrap_or(1)
    }

    /// Returns those of these names that are not empty, each once.
    pub(crate) fn only<'a>(
        &'a self,
        names: &'a [&'a str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        names.iter().filter_map(|name| Some((*name, self.exact(name)?)))
    }
}

/// Returns a relative address with parameters.
pub(crate) fn link(page: &str, params: &[(&str, &str)]) -> String {
    if params.is_empty() {
        return page.to_owned();
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
    format!("{page}?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let params = Params::parse(b"name=a%2Fb%20c&q=+x+&empty=&blank=+&page=3&name=second");
        assert_eq!(params.get("name"), Some("a/b c"));
        assert_eq!((params.get("q"), params.exact("q")), (Some("x"), Some(" x ")));
        assert_eq!(
            (params.get("empty"), params.get("blank"), params.get("else")),
            (None, None, None)
        );
        assert_eq!((params.page(), Params::parse(b"page=x").page()), (3, 1));
        let kept: Vec<_> = params.only(&["page", "name", "empty", "else"]).collect();
        assert_eq!(kept, [("page", "3"), ("name", "a/b c")]);
    }

    #[test]
    fn links_are_encoded() {
        assert_eq!(link("locks", &[]), "locks");
        assert_eq!(
            link("lock", &[("name", "a/b&c=<d> é")]),
            "lock?name=a%2Fb%26c%3D%3Cd%3E+%C3%A9"
        );
    }
}
