use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
};

use super::link::Link;
use crate::node::{Hint, Hints};

/// The hints of one server on their way to its clients. They are told when nothing is locked.
#[derive(Debug, Default)]
pub(super) struct Post {
    due: Mutex<VecDeque<(Weak<Client>, Hint)>>,
    clients: Mutex<Vec<Weak<Client>>>,
}

#[derive(Debug)]
pub(super) struct Client {
    link: Arc<Link>,
    hints: Hints,
}

impl Post {
    pub(super) fn client(&self, link: &Arc<Link>, hints: Hints) -> Arc<Client> {
        let client = Arc::new(Client { link: Arc::clone(link), hints });
        let mut clients = crate::sync::lock(&self.clients);
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(&client));
        client
    }

    /// What the embedded node says goes through here.
    pub(super) fn inbox(self: &Arc<Self>, client: &Arc<Client>) -> Hints {
        let (post, client) = (Arc::clone(self), Arc::downgrade(client));
        Hints::from_fn(move |hint| {
            crate::sync::lock(&post.due).push_back((Weak::clone(&client), hint));
        })
    }

    /// Tells the clients of this link, or all, that they are heard or not.
    pub(super) fn tell(&self, link: Option<&Arc<Link>>, hint: Hint) {
        let clients = crate::sync::lock(&self.clients).clone();
        for client in clients.iter().filter_map(Weak::upgrade) {
            if link.is_none_or(|link| Arc::ptr_eq(&client.link, link)) {
                client.hints.send(hint);
            }
        }
    }

    pub(super) fn deliver(&self) {
        loop {
            let Some((client, hint)) = crate::sync::lock(&self.due).pop_front() else { return };
            if let Some(client) = client.upgrade()
                && client.link.cut_since().is_none()
            {
                client.hints.send(hint);
            }
        }
    }
}
