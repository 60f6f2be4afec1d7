//! Tests and examples with crates that services have: `tests/` and `examples/`.
