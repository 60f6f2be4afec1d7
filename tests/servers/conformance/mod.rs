//! One suite for both kinds of node: the embedded one and the server pass the same tests.
//!
//! A case is a function over a [`Subject`]; `on_both!` makes two tests of each.

macro_rules! on_both {
    ($($case:ident)*) => {
        mod embedded {
            $(#[tokio::test]
            async fn $case() {
                super::$case(&super::Subject::embedded()).await;
            })*
        }

        mod server {
            $(#[tokio::test]
            async fn $case() {
                super::$case(&super::Subject::server().await).await;
            })*
        }
    };
}

mod asks;
mod claims;
mod contender;
mod differential;
mod fences;
mod foreign_keys;
mod grants;
mod hints;
mod late;
mod plain;
mod raising;
mod records;
mod releasing;
mod scanning;
mod sets;
mod sharing;
mod slots;
mod subject;

use contender::{Contender, assert_held, fence_of, granted, now_token, raised};
use subject::Subject;
