//! Keys, their values, and their expiry.

use std::collections::BTreeMap;

/// A byte string.
pub type Bytes = Vec<u8>;

/// The members of a sorted set, with their scores.
pub type SortedSet = BTreeMap<Bytes, f64>;

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(Bytes),
    /// A hash.
    Hash(BTreeMap<Bytes, Bytes>),
    /// A list, a type that the crate does not use.
    List(Vec<Bytes>),
    /// A sorted set.
    Sorted(SortedSet),
}

impl Value {
    /// Returns the name that TYPE answers.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::Sorted(_) => "zset",
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    /// Expiry in ms since the epoch, by the server's clock.
    expires: Option<i64>,
}

/// The data of a server. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Store {
    entries: BTreeMap<Bytes, Entry>,
}

/// The expiry of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// There is no such key.
    NoKey,
    /// The key does not expire.
    Never,
    /// The key expires at this moment, in ms since the epoch.
    At(i64),
}

impl Store {
    /// Returns the value of a key that has not expired at `now`, in ms since the epoch.
    pub fn get(&self, key: &[u8], now: i64) -> Option<&Value> {
        self.live(key, now).map(|entry| &entry.value)
    }

    /// Returns the hash of a key for changes; an empty one is created if there is no key. `None` if
    /// the key has another type.
    pub fn hash_mut(&mut self, key: &[u8], now: i64) -> Option<&mut BTreeMap<Bytes, Bytes>> {
        match self.value_mut(key, now, || Value::Hash(BTreeMap::new())) {
            Value::Hash(fields) => Some(fields),
            _ => None,
        }
    }

    /// Does the same for a sorted set.
    pub fn sorted_mut(&mut self, key: &[u8], now: i64) -> Option<&mut SortedSet> {
        match self.value_mut(key, now, || Value::Sorted(BTreeMap::new())) {
            Value::Sorted(members) => Some(members),
            _ => None,
        }
    }

    fn value_mut(&mut self, key: &[u8], now: i64, new: fn() -> Value) -> &mut Value {
        self.drop_expired(key, now);
        let entry = self.entries.entry(key.to_vec());
        &mut entry.or_insert_with(|| Entry { value: new(), expires: None }).value
    }

    /// Sets a string and its expiry.
    pub fn set(&mut self, key: &[u8], text: Bytes, expires: Option<i64>) {
        self.entries.insert(key.to_vec(), Entry { value: Value::Text(text), expires });
    }

    /// Adds to the end of a list. Returns its length, or `None` for a key of another type.
    pub fn push(&mut self, key: &[u8], items: &[Bytes], now: i64) -> Option<usize> {
        let value = self.value_mut(key, now, || Value::List(Vec::new()));
        let Value::List(list) = value else { return None };
        list.extend_from_slice(items);
        Some(list.len())
    }

    /// Renames a key. Returns whether it existed.
    pub fn rename(&mut self, key: &[u8], name: &[u8], now: i64) -> bool {
        self.drop_expired(key, now);
        let Some(entry) = self.entries.remove(key) else { return false };
        self.entries.insert(name.to_vec(), entry);
        true
    }

    /// Deletes a key. Returns whether it existed.
    pub fn delete(&mut self, key: &[u8], now: i64) -> bool {
        let was_live = self.live(key, now).is_some();
        self.entries.remove(key);
        was_live
    }

    /// Returns when a key expires.
    pub fn expiry(&self, key: &[u8], now: i64) -> Expiry {
        match self.live(key, now) {
            None => Expiry::NoKey,
            Some(Entry { expires: None, .. }) => Expiry::Never,
            Some(Entry { expires: Some(at), .. }) => Expiry::At(*at),
        }
    }

    /// Sets the expiry of a key. Returns false if there is no key. A time in the past deletes the
    /// key.
    pub fn expire(&mut self, key: &[u8], at: i64, now: i64) -> bool {
        if self.live(key, now).is_none() {
            return false;
        }
        if at <= now {
            self.entries.remove(key);
        } else if let Some(entry) = self.entries.get_mut(key) {
            entry.expires = Some(at);
        }
        true
    }

    /// Returns the keys that have not expired, in the order of their bytes.
    pub fn keys(&self, now: i64) -> impl Iterator<Item = &Bytes> {
        self.entries.iter().filter(move |(_, entry)| is_live(entry, now)).map(|(key, _)| key)
    }

    /// Deletes everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the approximate size of the data in bytes.
    pub fn used(&self) -> usize {
        let value = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::List(items) => items.iter().map(|item| item.len() + 16).sum(),
            Value::Hash(fields) => fields.iter().map(|(f, v)| f.len() + v.len() + 64).sum(),
            Value::Sorted(members) => members.keys().map(|member| member.len() + 64).sum(),
        };
        self.entries.iter().map(|(key, entry)| key.len() + value(&entry.value) + 96).sum()
    }

    fn live(&self, key: &[u8], now: i64) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| is_live(entry, now))
    }

    fn drop_expired(&mut self, key: &[u8], now: i64) {
        if self.live(key, now).is_none() {
            self.entries.remove(key);
        }
    }
}

/// A key still exists in the millisecond of its expiry.
fn is_live(entry: &Entry, now: i64) -> bool {
    entry.expires.is_none_or(|at| now <= at)
}
