//! TLS of stores: rustls with the certificates of the system, and those of a file.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{StoreResult, StoreUrl, failed};

/// The certificates to trust.
pub(super) fn certificates(url: &StoreUrl) -> StoreResult<Vec<CertificateDer<'static>>> {
    let mut found = rustls_native_certs::load_native_certs().certs;
    if let Some(path) = &url.root_cert {
        let shown = path.display();
        let own = CertificateDer::pem_file_iter(path)
            .and_then(|all| all.collect::<Result<Vec<_>, _>>())
            .map_err(|err| failed(format!("sslrootcert={shown}: {err}")))?;
        if own.is_empty() {
            return Err(failed(format!(
                "sslrootcert={shown}: no certificate in this file"
            )));
        }
        found.extend(own);
    }
    if found.is_empty() {
        return Err(failed(
            "the system has no certificates to trust: specify sslrootcert=FILE in the address",
        ));
    }
    Ok(found)
}

/// The implementation of the cryptography.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Makes TLS connections to PostgreSQL.
#[derive(Clone)]
pub(super) struct PostgresTls {
    config: Arc<ClientConfig>,
}

impl PostgresTls {
    pub(super) fn new(url: &StoreUrl) -> StoreResult<PostgresTls> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(url)?);
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(PostgresTls { config: Arc::new(config) })
    }
}

impl<S> MakeTlsConnect<S> for PostgresTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        let server = ServerName::try_from(domain.to_owned())
            .map_err(|err| io::Error::new(io::ErrorKind::InvalidInput, err))?;
        Ok(Handshake { config: Arc::clone(&self.config), server })
    }
}

/// A connection that is not yet encrypted.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let connector = tokio_rustls::TlsConnector::from(self.config);
            Ok(Encrypted(Box::new(connector.connect(self.server, stream).await?)))
        })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
