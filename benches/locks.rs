//! The times of operations over real servers. Run by `scripts/bench`.

fn main() {
    tower_redlock_benches::locks();
}
