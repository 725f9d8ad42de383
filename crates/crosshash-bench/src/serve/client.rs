//! A minimal HTTP client with a persistent connection, for the load generator and the tests. It is
//! small so that it uses little CPU time.

use std::io::{BufRead as _, BufReader, Error, ErrorKind, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One connection to a server.
pub(crate) struct Client {
    addr: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
    timeout: Duration,
    /// Sent with every request.
    pub(crate) token: Option<String>,
}

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A header by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    /// Connects with the first request.
    pub(crate) fn new(addr: SocketAddr) -> Client {
        Client { addr, stream: None, timeout: Duration::from_secs(60), token: None }
    }

    /// Gets a path.
    pub(crate) fn get(&mut self, path: &str) -> Result<Reply> {
        self.request("GET", path, "", &[])
    }

    /// Sends JSON.
    pub(crate) fn json(&mut self, method: &str, path: &str, body: &str) -> Result<Reply> {
        self.request(method, path, "content-type: application/json\r\n", body.as_bytes())
    }

    /// Sends a request; `headers` are complete lines.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<Reply> {
        let token = self.token.as_ref();
        let token =
            token.map_or(String::new(), |t| format!("authorization: Bearer {t}\r\n"));
        let mut bytes = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{token}{headers}content-length: {}\r\n\r\n",
            self.addr,
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        self.raw(&bytes)
    }

    /// Sends exactly these bytes and reads one response. A connection that the server closed since the
    /// last request is opened again.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<Reply> {
        let reused = self.stream.is_some();
        match self.once(bytes) {
            Err(_) if reused => {
                self.stream = None;
                self.once(bytes)
            }
            other => other,
        }
    }

    fn once(&mut self, bytes: &[u8]) -> Result<Reply> {
        let reply = self.attempt(bytes);
        if reply.is_err() {
            self.stream = None;
        }
        reply
    }

    fn attempt(&mut self, bytes: &[u8]) -> Result<Reply> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&self.addr, self.timeout)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(self.timeout))?;
                stream.set_write_timeout(Some(self.timeout))?;
                self.stream.insert(BufReader::new(stream))
            }
        };
        // A server may refuse before it has read everything: then its answer counts.
        let sent = stream.get_mut().write_all(bytes);
        let (reply, keeps) = match read(stream) {
            Ok(reply) => reply,
            Err(err) => return Err(sent.err().unwrap_or(err)),
        };
        if !keeps || sent.is_err() {
            self.stream = None;
        }
        Ok(reply)
    }
}

/// Reads one response; returns whether the connection stays open.
fn read(stream: &mut BufReader<TcpStream>) -> Result<(Reply, bool)> {
    let odd = |what: &str| Error::new(ErrorKind::InvalidData, what.to_owned());
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let status = line.split(' ').nth(1).and_then(|text| text.trim().parse().ok());
    let status = status.ok_or_else(|| odd("no status line"))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut reply = Reply { status, headers, body: Vec::new() };
    let length = reply.header("content-length").map(str::parse::<usize>);
    if let Some(length) = length {
        let length = length.map_err(|_| odd("content-length is not a number"))?;
        reply.body = vec![0; length];
        stream.read_exact(&mut reply.body)?;
    } else if reply.header("transfer-encoding").is_some() {
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let size =
                usize::from_str_radix(line.trim(), 16).map_err(|_| odd("a chunk"))?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk)?;
            if size == 0 {
                break;
            }
            reply.body.extend_from_slice(&chunk[..size]);
        }
    }
    let keeps = reply.header("connection") != Some("close");
    Ok((reply, keeps))
}
