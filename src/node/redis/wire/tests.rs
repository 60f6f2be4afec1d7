//! A connection over pipes.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::sleep,
};

use super::*;

/// A wire over a pipe that is smaller than the data.
fn wire() -> (Wire, tokio::io::DuplexStream) {
    let (ours, server) = tokio::io::duplex(5);
    (Wire::new(Box::new(ours)), server)
}

#[tokio::test]
async fn answer_before_disconnect_counts() {
    let (mut wire, mut server) = wire();
    tokio::spawn(async move {
        server.read_exact(&mut [0; 14]).await.unwrap();
        server.write_all(b"+PONG\r\n").await.unwrap();
    });
    let mut ping = Pipeline::with_capacity(1);

    ping.cmd("PING");

    assert_eq!(wire.ask(&ping).await, Ok(vec![Value::SimpleString("PONG".into())]));
    assert!(matches!(wire.ask(&ping).await, Err(Reason::NotConnected(_))));
}

#[tokio::test]
async fn long_answer_buffers_are_freed() {
    let (mut wire, mut server) = wire();
    let long = vec![b'x'; 3 * MAX_KEPT];
    let (sent, length) = (long.clone(), long.len());
    let serving = tokio::spawn(async move {
        for text in [&sent[..], b"short"] {
            server.read_exact(&mut [0; 14]).await.unwrap();
            let head = format!("${}\r\n", text.len());
            server.write_all(&[head.as_bytes(), text, b"\r\n"].concat()).await.unwrap();
        }
    });
    let mut ping = Pipeline::with_capacity(1);

    ping.cmd("PING");

    assert_eq!(wire.ask(&ping).await, Ok(vec![Value::BulkString(long)]));
    assert!(wire.input.len() > length);
    assert_eq!(wire.ask(&ping).await, Ok(vec![Value::BulkString(b"short".to_vec())]));
    assert_eq!(wire.input.len(), READ_BUFFER);

    serving.await.unwrap();
}
#[tokio::test]
async fn buffered_output_is_flushed() {
    let (ours, mut server) = tokio::io::duplex(64);
    let mut wire = Wire::new(Box::new(tokio::io::BufWriter::new(ours)));
    let mut ping = Command::default();
    ping.arg("PING");

    for _ in 0..2 {
        wire.push(&ping);
        std::future::poll_fn(|cx| wire.poll_write(cx)).await.unwrap();
        let mut read = [0; 64];
        let mut read = ReadBuf::new(&mut read);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut server).poll_read(&mut cx, &mut read).is_ready());
        assert_eq!(read.filled(), b"*1\r\n$4\r\nPING\r\n");
    }
}

#[tokio::test]
async fn rejection_text_is_the_reason() {
    let mut twice = Pipeline::with_capacity(2);
    twice.cmd("PING").cmd("PING");

    for may_write in [true, false] {
        let (ours, mut server) = tokio::io::duplex(64);
        server.write_all(b"-ERR max number of clients reached\r\n").await.unwrap();
        let mut wire = Wire::new(Box::new(ours));
        let leave = async move {
            if may_write {
                server.read_exact(&mut [0; 28]).await.unwrap();
            }
        };
        let told = if may_write {
            tokio::join!(wire.ask(&twice), leave).0
        } else {
            leave.await;
            wire.ask(&twice).await
        };
        assert_eq!(told, Err(Reason::Server("ERR max number of clients reached".into())));
    }
}

#[test]
fn written_bytes_are_freed_under_backlog() {
    const BACKLOG: usize = 10_000;
    const ROUNDS: usize = 100_000;
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let (ours, mut server) = tokio::io::duplex(14);
    let mut wire = Wire::new(Box::new(ours));
    let mut ping = Command::default();
    ping.arg("PING");
    (0..BACKLOG).for_each(|_| wire.push(&ping));

    for _ in 0..ROUNDS {
        wire.push(&ping);
        assert!(wire.poll_write(&mut cx).is_pending());
        let mut read = [0; 14];
        let mut read = ReadBuf::new(&mut read);
        assert!(Pin::new(&mut server).poll_read(&mut cx, &mut read).is_ready());
        assert_eq!(read.filled(), b"*1\r\n$4\r\nPING\r\n");
    }

    assert!(wire.output.len() <= 2 * (BACKLOG + 2) * 14 + READ_BUFFER, "{}", wire.output.len());
}

#[tokio::test]
async fn endless_answers_take_bounded_memory() {
    let mut ping = Pipeline::with_capacity(1);
    ping.cmd("PING");
    let nested: &'static [u8] = Box::leak(b"*2\r\n".repeat(30).into());
    let begun: [&'static [u8]; 8] = [
        b"$536870912\r\n",
        b"*1048576\r\n",
        b"*20000\r\n",
        nested,
        b"-ERR ",
        b"+",
        b"$500000\r\n",
        b"",
    ];

    for begun in begun {
        for rest in [&b":1\r\n"[..], b"*9\r\n", b"$2\r\nab\r\n", b"x", b"$-1\r\n"] {
            let (ours, mut server) = tokio::io::duplex(64 * 1024);
            let mut wire = Wire::new(Box::new(ours));
            let endless = rest.repeat(10_000);
            let sending = tokio::spawn(async move {
                let mut sent = begun.len();
                let _ = server.write_all(begun).await;
                while server.write_all(&endless).await.is_ok() {
                    sent += endless.len();
                }
                sent
            });
            let _ = wire.ask(&ping).await;
            assert!(wire.input.len() <= 2 * MAX_GREETING, "{}", wire.input.len());
            drop(wire);
            let sent = sending.await.unwrap();
            assert!(sent <= 3 * MAX_GREETING, "{sent} bytes");
        }
    }
}

#[tokio::test]
async fn answers_of_impossible_length_are_refused() {
    let (mut wire, mut server) = wire();
    tokio::spawn(async move { server.write_all(b"$536870912\r\n").await });
    let mut ping = Pipeline::with_capacity(1);
    ping.cmd("PING");
    assert_eq!(wire.ask(&ping).await, Err(Unreadable::TooLong.into()));
}

#[tokio::test(start_paused = true)]
async fn slow_answer_may_not_fall_silent() {
    const SILENCE: Duration = Duration::from_secs(5);
    let (ours, mut server) = tokio::io::duplex(1024);
    let mut wire = Wire::new(Box::new(ours));
    let mut ping = Pipeline::with_capacity(1);
    ping.cmd("PING");
    let begun = Instant::now();
    let trickle = async {
        for byte in b"$10\r\n0123456789\r\n" {
            sleep(Duration::from_secs(4)).await;
            server.write_all(&[*byte]).await.unwrap();
        }
    };
    let (answers, ()) = tokio::join!(wire.ask_within(&ping, SILENCE, MAX_LONG), trickle);
    assert_eq!(answers, Ok(vec![Value::BulkString(b"0123456789".to_vec())]));
    assert_eq!(begun.elapsed().as_secs(), 17 * 4);

    let begun = Instant::now();
    server.write_all(b"$10\r\n0123").await.unwrap();
    assert_eq!(wire.ask_within(&ping, SILENCE, MAX_LONG).await, Err(Reason::TimedOut));
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[test]
fn busy_server_does_not_block_thread() {
    let mut wire = Wire::new(Box::new(Ready { begun: false }));
    let mut ping = Pipeline::with_capacity(1);
    ping.cmd("PING");
    let ask = std::pin::pin!(wire.ask(&ping));
    assert!(ask.poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
}

/// A stream that always has the next part of a long list ready.
struct Ready {
    begun: bool,
}

impl AsyncRead for Ready {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let begun = std::mem::replace(&mut self.begun, true);
        room.put_slice(if begun { b":1\r\n" } else { b"*10000\r\n" });
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Ready {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
