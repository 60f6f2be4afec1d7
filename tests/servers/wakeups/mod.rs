//! Who waits is woken by the release: by the servers' word, without asking again and again.

mod scene;

mod crowd;
mod faults;
mod handover;
mod line;
mod shares;
