//! Lists that are shown page by page.

use std::ops::Range;

/// One page of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paging {
    /// Number of entries on all pages.
    pub(crate) found: usize,
    /// The number of this page, from 1.
    pub(crate) number: usize,
    /// Number of pages, at least 1.
    pub(crate) pages: usize,
    /// Maximum number of entries on a page.
    size: usize,
}

impl Paging {
    /// Returns the page with this number, or the nearest one that exists.
    pub(crate) fn new(found: usize, size: usize, wanted: usize) -> Self {
        let pages = found.div_ceil(size).max(1);
        Self { found, number: wanted.clamp(1, pages), pages, size }
    }

    /// Returns the positions of its entries in the whole list.
    pub(crate) fn range(self) -> Range<usize> {
        let first = (self.number - 1) * self.size;
        first..self.found.min(first + self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_exists() {
        for (wanted, number, range) in [(0, 1, 0..100), (2, 2, 100..200), (9, 3, 200..250)] {
            let page = Paging::new(250, 100, wanted);
            assert_eq!((page.number, page.pages, page.range()), (number, 3, range));
        }
        let empty = Paging::new(0, 100, 1);
        assert_eq!((empty.pages, empty.range()), (1, 0..0));
    }
}
