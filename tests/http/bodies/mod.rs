//! Bodies under a lock: untouched as seen from outside, and the lock's end in the right place.

mod alike;
mod end;
mod scripted;
