//! Bodies under a lock: unchanged for the client, and the lock ends with them.

mod alike;
mod end;
mod scripted;
