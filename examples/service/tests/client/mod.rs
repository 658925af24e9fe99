//! An HTTP client of a hundred lines: one connection that is kept, one request after the other.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program uses a part of it"
)]

use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub const JSON: (&str, &str) = ("Content-Type", "application/json");
pub const RAW: (&str, &str) = ("Content-Type", "application/octet-stream");

pub struct Client {
    stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Value,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a request and waits for its response.
    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        self.send(method, path, headers, body).await?;
        self.receive().await
    }

    pub async fn classify(&mut self, pixels: &[u8]) -> io::Result<Response> {
        self.request("POST", "/classify", &[RAW], pixels).await
    }

    pub async fn health(&mut self) -> io::Result<Response> {
        self.request("GET", "/health", &[], &[]).await
    }

    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: digits\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n", body.len());
        let mut request = request.into_bytes();
        request.extend(body);
        self.stream.write_all(&request).await
    }

    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    pub async fn receive(&mut self) -> io::Result<Response> {
        let status = self.line().await?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").ok_or(malformed("a header"))?;
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let mut response = Response {
            status: status.ok_or(malformed("the status"))?,
            headers,
            body: Value::Null,
        };
        let length = response.header("content-length");
        let length = length.and_then(|length| length.parse().ok());
        let mut body = vec![0; length.ok_or(malformed("the length"))?];
        self.stream.read_exact(&mut body).await?;
        response.body = serde_json::from_slice(&body)?;
        Ok(response)
    }

    /// What comes after the last response, until the service closes the connection.
    pub async fn rest(mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await?;
        Ok(rest)
    }

    /// As [`Client::rest`], but says first that no request will follow.
    pub async fn end(mut self) -> io::Result<Vec<u8>> {
        self.stream.get_mut().shutdown().await?;
        self.rest().await
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(given, _)| given == name);
        header.map(|(_, value)| value.as_str())
    }

    /// What a refusal says.
    pub fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }
}

/// The held-out images of the example, one after the other. Format: `examples/digits/README.md`.
pub fn images() -> Vec<[u8; 64]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../digits/heldout.xud");
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"XUDIGITS");
    let count = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    let pixels = &bytes[24..][..count as usize * 64];
    let images = pixels.chunks_exact(64);
    images.map(|image| image.try_into().unwrap()).collect()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what} cannot be understood"),
    )
}
