//! The benchmarks are in `locks/`.
