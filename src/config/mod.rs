//! Settings of a manager from a file, or from variables of the environment.

#[expect(clippy::module_inception, reason = "it has the type `Config`")]
pub(crate) mod config;
mod config_error;
mod node_list;
mod node_url;
mod value;

use config_error::ConfigError;
use node_list::SetNodes;
use node_url::{NamedUrl, NodeUrl};
use value::Buffered;
