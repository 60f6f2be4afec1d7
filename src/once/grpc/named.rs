use tonic::server::NamedService;

use crate::once::OnceService;

/// So that one service, wrapped, can be given to `Server::add_service`.
impl<S: NamedService, K, C, F> NamedService for OnceService<S, K, C, F> {
    const NAME: &'static str = S::NAME;
}
