//! The course of `serve`.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::timeout;
use tower_redlock_dashboard::Dashboard;

use super::{
    args::ServeArgs,
    server::{accept_until_signal, listen},
    viewers::Viewers,
};
use crate::{
    exit::Failure,
    options::SharedArgs,
    output::{print, print_json_line},
    settings::Settings,
    signals::{self, Signals},
};

/// Limit for the end of the manager. Keys on a server that does not answer expire.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) async fn serve(shared: &SharedArgs, args: &ServeArgs) -> Result<(), Failure> {
    let viewers = Viewers::new(args)?;
    let redlock = Settings::new(shared)?.build()?;
    // A hangup that was ignored at the start stays so.
    let is_heard = |signal: &Signal| *signal != Signal::HUP || !signals::is_ignored(*signal);
    // Before the address is printed: from then on a signal ends the program in order.
    let mut signals = Signals::new(signals::END.into_iter().filter(is_heard))?;
    let listener = listen(args.listen).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let dashboard = viewers.admit(Dashboard::new(redlock.clone()));
    if shared.json {
        print_json_line(&json!({ "url": url }))?;
    } else {
        print(&format!("{url}\n"))?;
    }
    accept_until_signal(listener, args.max_connections.into(), dashboard, &mut signals).await;
    let _ = timeout(SHUTDOWN_TIMEOUT, redlock.shutdown()).await;
    Ok(())
}
