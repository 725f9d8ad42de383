//! `TimedIo`: a connection that fails if the client does not read.
//!
//! A blocked write may take the time limit. Every byte that the client reads gives time back at
//! [`SLOWEST`], so that large answers over slow networks arrive, but a client that reads a byte now
//! and then is cut off.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes per second that a client must read on average.
const SLOWEST: u64 = 8 << 10;

pub(crate) struct TimedIo {
    stream: TcpStream,
    limit: Duration,
    /// When the write that is blocked fails.
    ends: Option<Pin<Box<Sleep>>>,
    /// Whether the last write was blocked.
    blocked: bool,
}

impl TimedIo {
    pub(crate) fn new(stream: TcpStream, limit: Duration) -> TimedIo {
        TimedIo { stream, limit, ends: None, blocked: false }
    }

    /// Counts a write towards the limit.
    fn timed(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<Result<usize>>,
    ) -> Poll<Result<usize>> {
        let now = Instant::now();
        match written {
            Poll::Pending => {
                self.blocked = true;
                let limit = self.limit;
                let ends =
                    self.ends.get_or_insert_with(|| Box::pin(sleep_until(now + limit)));
                ready!(ends.as_mut().poll(context));
                let what = "the client does not read the response";
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, what)))
            }
            Poll::Ready(Ok(bytes)) => {
                self.blocked = false;
                if let Some(ends) = &mut self.ends {
                    let bonus = Duration::from_millis(bytes as u64 * 1000 / SLOWEST);
                    let later = (ends.deadline() + bonus).min(now + self.limit);
                    ends.as_mut().reset(later);
                }
                Poll::Ready(Ok(bytes))
            }
            failed => failed,
        }
    }
}

impl AsyncRead for TimedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        // A new request: the responses before it were read.
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() && !self.blocked {
            self.ends = None;
        }
        read
    }
}

impl AsyncWrite for TimedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use tokio::net::TcpListener;

    use super::*;

    async fn write_all(io: &mut TimedIo, bytes: usize) -> Result<()> {
        let block = vec![0; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            let part = &block[..left.min(block.len())];
            let write =
                |context: &mut Context<'_>| Pin::new(&mut *io).poll_write(context, part);
            left -= std::future::poll_fn(write).await?;
        }
        Ok(())
    }

    #[test]
    fn a_client_that_does_not_read_is_cut_off() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let silent = std::net::TcpStream::connect(address).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let mut io = TimedIo::new(stream, Duration::from_millis(200));
            let err = write_all(&mut io, 64 << 20).await.unwrap_err();
            assert_eq!(err.kind(), ErrorKind::TimedOut);
            drop(silent);
            // one that reads gets everything
            let mut reading = std::net::TcpStream::connect(address).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let mut io = TimedIo::new(stream, Duration::from_secs(5));
            let reader = std::thread::spawn(move || {
                let mut all = Vec::new();
                reading.read_to_end(&mut all).unwrap();
                all.len()
            });
            write_all(&mut io, 8 << 20).await.unwrap();
            drop(io);
            assert_eq!(reader.join().unwrap(), 8 << 20);
        });
    }
}
