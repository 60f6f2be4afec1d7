//! What systemd passes to a service reaches the program.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    process::{Command, Stdio},
    time::Duration,
};

use crate::fixture::{Fixture, HANG_GUARD};

/// Sends to the socket as `sd_notify(3)` does.
const NOTIFY: &str = r#"perl -e '
    use Socket;
    socket(my $to, AF_UNIX, SOCK_DGRAM, 0) or die $!;
    send($to, "READY=1\nMAINPID=$ARGV[0]", 0, pack_sockaddr_un($ENV{NOTIFY_SOCKET})) or die $!;
' $$"#;

/// Starts `redlock run` as a service manager does: by exec, with its process id in variables.
fn service(fixture: &Fixture, script: &str, variables: &str) -> Command {
    let redlock = fixture.command(&["a", "--", "sh", "-c", script]);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{variables} exec \"$@\"")).arg("sh");
    command.arg(redlock.get_program()).args(redlock.get_args());
    command.envs(redlock.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(redlock.get_current_dir().unwrap()).stdin(Stdio::null());
    command
}

/// `Type=notify` with `NotifyAccess=all`.
#[test]
fn program_notifies_the_socket() {
    let fixture = Fixture::new();
    let socket = UnixDatagram::bind(fixture.file("notify")).unwrap();
    socket.set_read_timeout(Some(HANG_GUARD)).unwrap();
    let script = format!("echo $$ > pid; {NOTIFY}");
    let mut command = service(&fixture, &script, "");
    command.env("NOTIFY_SOCKET", fixture.file("notify"));
    fixture.start_command(command).ends(0, "");

    let mut text = [0; 256];
    let length = socket.recv(&mut text).unwrap();

    let text = std::str::from_utf8(&text[..length]).unwrap();
    assert_eq!(text, format!("READY=1\nMAINPID={}", fixture.read("pid").trim()));
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert!(socket.recv(&mut [0; 256]).is_err(), "redlock itself sends nothing");
}

/// Both name the process that they are for: the one that systemd has started.
#[test]
fn watchdog_and_sockets_are_the_programs() {
    let fixture = Fixture::new();
    fs::write(fixture.file("socket"), "listening\n").unwrap();
    let script = "echo $(($WATCHDOG_PID - $$)) $(($LISTEN_PID - $$)) > pids; cat <&3 > read";
    let of_service = "WATCHDOG_PID=$$ LISTEN_PID=$$ LISTEN_FDS=1";
    let variables = format!("exec 3<socket; export {of_service};");

    fixture.start_command(service(&fixture, script, &variables)).ends(0, "");

    assert_eq!(
        (fixture.read("pids"), fixture.read("read")),
        ("0 0\n".into(), "listening\n".into())
    );

    // Of a process above, which has started a shell.
    let script = "echo $WATCHDOG_PID $LISTEN_PID > pids";
    fixture
        .start_command(service(&fixture, script, "export WATCHDOG_PID=1 LISTEN_PID=2;"))
        .ends(0, "");
    assert_eq!(fixture.read("pids"), "1 2\n");
}
