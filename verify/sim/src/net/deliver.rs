//! Messages in flight, and their effects on arrival.

use std::io;

use super::{
    State,
    conn::{Conn, Opening},
    server_host::Power,
};
use crate::{
    redis::{Bytes, ConnId, Reply, take_command},
    trace::Trace,
};

/// A message in flight.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A client opens a connection.
    Syn(ConnId),
    /// The answer to the opening of a connection.
    Opened(ConnId, bool),
    /// Bytes for the server.
    Up(ConnId, Bytes),
    /// Bytes for the client.
    Down(ConnId, Bytes),
    /// The client has closed.
    UpEnd(ConnId),
    /// The server has closed the connection, or was replaced by another process.
    DownEnd(ConnId, io::ErrorKind),
}

impl Event {
    pub(super) fn conn(&self) -> ConnId {
        match self {
            Self::Syn(conn)
            | Self::Opened(conn, _)
            | Self::Up(conn, _)
            | Self::Down(conn, _)
            | Self::UpEnd(conn)
            | Self::DownEnd(conn, _) => *conn,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self, Self::Syn(_) | Self::Up(..) | Self::UpEnd(_))
    }
}

impl State {
    /// Sends an event over its connection, after earlier events in the same direction.
    pub(super) fn send(&mut self, now: u64, event: Event) {
        let id = event.conn();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let link = &self.links[conn.client][conn.server];
        let is_up = event.is_up();
        let pace = if is_up { link.up.pace } else { link.down.pace };
        let lag = if is_up { self.rng.within(0, conn.lag) } else { 0 };
        let arrives = now + pace.delay(&mut self.rng) + lag;
        let last = if is_up { &mut conn.last_up } else { &mut conn.last_down };
        *last = arrives.max(*last);
        let at = *last;
        self.schedule(at, event);
    }

    /// Handles an event that arrives now, unless its direction is blocked.
    pub(super) fn deliver(&mut self, event: Event, now: u64, trace: &Trace) {
        let id = event.conn();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let link = &mut self.links[conn.client][conn.server];
        let way = if event.is_up() { &mut link.up } else { &mut link.down };
        if way.is_blocked {
            way.parked.push(event);
            return;
        }
        let host = &mut self.servers[conn.server];
        if event.is_up() && host.power == Power::Dark {
            return;
        }
        match event {
            Event::Syn(_) => {
                let is_open = host.power == Power::On;
                conn.epoch = host.epoch;
                self.send(now, Event::Opened(id, is_open));
            }
            Event::Opened(_, is_open) => {
                conn.opening = if is_open { Opening::Open } else { Opening::Refused };
                self.wakers.extend(conn.waker.take());
            }
            Event::Up(..) if host.power != Power::On || conn.epoch != host.epoch => {
                self.send(now, Event::DownEnd(id, io::ErrorKind::ConnectionReset));
            }
            Event::Up(_, bytes) => {
                conn.unread.extend_from_slice(&bytes);
                if host.is_frozen {
                    if !host.backlog.contains(&id) {
                        host.backlog.push(id);
                    }
                } else {
                    self.serve(id, now, trace);
                }
            }
            Event::UpEnd(_) => {
                if conn.epoch == host.epoch {
                    host.server.closed(id);
                }
                self.conns.remove(&id);
            }
            Event::Down(_, bytes) => {
                if conn.ended.is_none() {
                    conn.received.extend_from_slice(&bytes);
                    self.wakers.extend(conn.waker.take());
                }
            }
            Event::DownEnd(_, how) => {
                conn.ended.get_or_insert(how);
                self.wakers.extend(conn.waker.take());
            }
        }
    }

    /// Runs the commands of a connection that have arrived.
    pub(super) fn serve(&mut self, id: ConnId, now: u64, trace: &Trace) {
        let Some(Conn { server, .. }) = self.conns.get(&id) else { return };
        let server = *server;
        let mut replies = Bytes::new();
        loop {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            let Some(args) = take_command(&mut conn.unread) else { break };
            let host = &mut self.servers[server];
            host.shown = host.clock(now);
            let mut reply = Bytes::new();
            for part in host.server.run(id, host.shown, &args) {
                part.write_to(&mut reply);
            }
            trace.command(now, server, id, &args, &reply);
            replies.extend_from_slice(&reply);
            for (listener, message) in host.server.take_pushed() {
                self.push(now, id, listener, &message, &mut replies);
            }
        }
        if !replies.is_empty() {
            self.send(now, Event::Down(id, replies));
        }
    }

    /// Sends a message to a listener, which may be the publisher.
    fn push(&mut self, now: u64, id: ConnId, listener: ConnId, message: &Reply, own: &mut Bytes) {
        if listener == id {
            message.write_to(own);
        } else {
            let mut bytes = Bytes::new();
            message.write_to(&mut bytes);
            self.send(now, Event::Down(listener, bytes));
        }
    }
}
