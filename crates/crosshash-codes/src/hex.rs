//! Bytes as hexadecimal digits: codes in JSON, hashes of files.

use std::fmt::Write as _;

/// Two digits a byte, in lower case.
pub fn encode(bytes: impl IntoIterator<Item = u8>) -> String {
    let mut out = String::new();
    for byte in bytes {
        // writing to a text does not fail
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The bytes of such digits, in either case; `None` for anything else.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty())
}
