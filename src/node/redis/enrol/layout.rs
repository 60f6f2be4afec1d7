use std::{fmt::Write, sync::Arc};

use crate::{node::redis::guards::Guards, stripe::fnv};

/// What a set of nodes is known by. Clients with different layouts never vote on the same node:
/// two majorities of different sets need not share a node.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// 16 hexadecimal digits.
    pub(crate) hash: Arc<str>,
    /// For people to read, and what the hash is made of.
    pub(crate) description: Arc<str>,
}

impl Layout {
    pub(crate) fn new(names: &[Arc<str>], prefix: &str, guards: &Guards) -> Self {
        let mut sorted: Vec<&str> = names.iter().map(|name| &**name).collect();
        sorted.sort_unstable();
        let mut description = format!(
            "{} nodes ({}), prefix {prefix}, restart guard {}",
            names.len(),
            sorted.join(", "),
            guards.restart
        );
        if let Some(within) = guards.clock {
            // Writing into memory does not fail.
            let _ = write!(description, ", clock guard {within:?}");
        }
        Self { hash: format!("{:016x}", fnv(&description)).into(), description: description.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn layout(names: &[&str], guards: &Guards) -> Layout {
        let names: Vec<Arc<str>> = names.iter().map(|name| (*name).into()).collect();
        Layout::new(&names, "redlock", guards)
    }

    #[test]
    fn the_order_of_the_nodes_does_not_matter_and_everything_else_does() {
        let guards = Guards::default();
        let base = layout(&["a:1/0", "b:1/0"], &guards);
        assert_eq!(base.hash, layout(&["b:1/0", "a:1/0"], &guards).hash);
        assert_eq!(base.hash.len(), 16);
        let strict = Guards { clock: Some(Duration::from_millis(250)), ..guards };
        let others = [
            layout(&["a:1/0", "b:1/0", "c:1/0"], &guards),
            layout(&["a:1/0", "b:1/1"], &guards),
            layout(&["a:1/0", "b:1/0"], &strict),
            Layout::new(&["a:1/0".into(), "b:1/0".into()], "other", &guards),
        ];
        assert!(others.iter().all(|other| other.hash != base.hash));
    }
}
