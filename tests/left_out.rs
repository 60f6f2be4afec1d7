//! Reports in one line which test targets this run omits because of missing features. Cargo itself
//! omits them silently.

/// The features of the crate, and whether this run has them.
macro_rules! features {
    ($($name:literal)*) => { [$(($name, cfg!(feature = $name))),*] };
}

const FEATURES: &[(&str, bool)] = &features! {
    "axum" "config" "cron" "fencing" "http" "metrics" "once" "redis-1" "scheduler" "test-servers" "testing" "tls" "tonic"
};

fn main() {
    let manifest: toml::Table = include_str!("../Cargo.toml").parse().expect("Cargo.toml is TOML");
    let names = manifest["features"].as_table().expect("features are a table").keys();
    for name in names.filter(|name| *name != "default") {
        assert!(FEATURES.iter().any(|(known, _)| known == name), "add {name} to tests/left_out.rs");
    }
    let left_out: Vec<&str> = manifest["test"]
        .as_array()
        .expect("tests are an array")
        .iter()
        .filter(|test| required(test).any(|name| !is_on(name)))
        .filter_map(|test| test["name"].as_str())
        .collect();
    if !left_out.is_empty() {
        println!(
            "left out, as they need features or redis-server: {} (scripts/test runs everything)",
            left_out.join(", ")
        );
    }
}

fn required(test: &toml::Value) -> impl Iterator<Item = &str> {
    let features = test.get("required-features").and_then(toml::Value::as_array);
    features.into_iter().flatten().filter_map(toml::Value::as_str)
}

fn is_on(name: &str) -> bool {
    FEATURES.iter().any(|(feature, on)| *feature == name && *on)
}
