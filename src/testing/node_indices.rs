//! Nodes by their numbers.

/// One node by its index, or several: a number, an array, a slice, a vector or a range.
pub trait NodeIndices: sealed::Indices {}

mod sealed {
    use std::ops::{Range, RangeInclusive};

    pub trait Indices {
        fn into_vec(self) -> Vec<usize>;
    }

    impl Indices for usize {
        fn into_vec(self) -> Vec<usize> {
            vec![self]
        }
    }

    macro_rules! several {
        ($([$($generics:tt)*] $indices:ty),* $(,)?) => {
            $(
                impl<$($generics)*> Indices for $indices {
                    fn into_vec(self) -> Vec<usize> {
                        self.into_iter().collect()
                    }
                }
            )*
        };
    }

    several! {
        [const N: usize] [usize; N],
        [] Vec<usize>,
        [] Range<usize>,
        [] RangeInclusive<usize>,
    }

    impl Indices for &[usize] {
        fn into_vec(self) -> Vec<usize> {
            self.to_vec()
        }
    }
}

impl<I: sealed::Indices> NodeIndices for I {}
