//! The simulated server on a real port. It behaves like `redis-server` as far as the crate's own
//! tests check, so that these verify it. Put its folder first in `PATH`, and run `--test servers
//! conformance`.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tower_redlock_sim::{
    redis::{Bytes, ConnId, Server, take_command},
    rng::Rng,
};

struct Process {
    server: Server,
    next: ConnId,
    outlets: HashMap<ConnId, mpsc::UnboundedSender<Bytes>>,
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "--version") {
        println!("Redis server v=7.0.15 (simulated)");
        return Ok(());
    }
    let port =
        args.iter().position(|arg| arg == "--port").and_then(|at| args.get(at + 1)?.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, listen(port.unwrap_or(6379)))
}

async fn listen(port: u16) -> std::io::Result<()> {
    let listener = match TcpListener::bind(("127.0.0.1", port)).await {
        Ok(listener) => listener,
        Err(error) => {
            println!("Could not create server TCP listening socket: Address already in use");
            return Err(error);
        }
    };
    println!("Ready to accept connections");
    let mut rng = Rng::of(now(), std::process::id().into());
    let server = Server::new(rng.hex40(), rng.hex40());
    let process = Rc::new(RefCell::new(Process { server, next: 1, outlets: HashMap::new() }));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(serve(Rc::clone(&process), stream));
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

async fn serve(process: Rc<RefCell<Process>>, stream: TcpStream) {
    let (outlet, mut outgoing) = mpsc::unbounded_channel();
    let id = {
        let mut process = process.borrow_mut();
        process.next += 1;
        let id = process.next;
        process.outlets.insert(id, outlet);
        id
    };
    let (mut reader, mut writer) = stream.into_split();
    let writing = async {
        while let Some(bytes) = outgoing.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        let (mut unread, mut buffer) = (Bytes::new(), vec![0; 64 * 1024]);
        loop {
            match reader.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(length) => unread.extend_from_slice(&buffer[..length]),
            }
            process.borrow_mut().run(id, &mut unread);
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
    let mut process = process.borrow_mut();
    process.outlets.remove(&id);
    process.server.closed(id);
}

impl Process {
    fn run(&mut self, id: ConnId, unread: &mut Bytes) {
        while let Some(args) = take_command(unread) {
            let mut bytes = Bytes::new();
            for reply in self.server.run(id, now(), &args) {
                reply.write_to(&mut bytes);
            }
            self.send(id, bytes);
            for (listener, message) in self.server.take_pushed() {
                let mut bytes = Bytes::new();
                message.write_to(&mut bytes);
                self.send(listener, bytes);
            }
        }
    }

    fn send(&self, to: ConnId, bytes: Bytes) {
        if let Some(outlet) = self.outlets.get(&to) {
            // The connection may have just ended.
            let _ = outlet.send(bytes);
        }
    }
}
