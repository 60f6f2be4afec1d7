//! Writes tables of the samples in a file to a folder. Run by `scripts/bench`.

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [samples, folder] = &args[..] else {
        eprintln!("usage: report SAMPLES FOLDER");
        std::process::exit(2);
    };
    if let Err(error) = tower_redlock_benches::report(samples.as_ref(), folder.as_ref()) {
        eprintln!("report: {error}");
        std::process::exit(1);
    }
}
