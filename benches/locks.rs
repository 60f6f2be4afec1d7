//! `scripts/bench` runs it: what takes time over real servers.

fn main() {
    tower_redlock_benches::locks();
}
