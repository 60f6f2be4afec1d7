use tonic::server::NamedService;

use crate::layer::RedlockService;

/// So that one service, wrapped, can be given to `Server::add_service`.
impl<S: NamedService, K, F> NamedService for RedlockService<S, K, F> {
    const NAME: &'static str = S::NAME;
}
