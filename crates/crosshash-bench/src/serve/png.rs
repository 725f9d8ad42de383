//! Small PNG files whose header may declare a wrong size.

use std::io::Write as _;

/// A PNG file with a declared size and a number of bytes of compressed zeros.
pub(super) fn png(width: u32, height: u32, zeros: usize) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        file.extend(u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
        let mut summed = kind.to_vec();
        summed.extend_from_slice(data);
        file.extend_from_slice(&summed);
        file.extend(crc32(&summed).to_be_bytes());
    };
    let mut head = width.to_be_bytes().to_vec();
    head.extend(height.to_be_bytes());
    head.extend([8, 0, 0, 0, 0]);
    chunk(b"IHDR", &head);
    let mut packed = Vec::new();
    let mut writer = zip_deflate(&mut packed);
    let _ = writer.write_all(&vec![0; zeros]);
    drop(writer);
    chunk(b"IDAT", &packed);
    chunk(b"IEND", &[]);
    file
}

/// A zlib stream of stored (uncompressed) blocks.
fn zip_deflate(out: &mut Vec<u8>) -> impl std::io::Write + '_ {
    struct Stored<'a>(&'a mut Vec<u8>);
    impl std::io::Write for Stored<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let (mut a, mut b) = (1_u32, 0_u32);
            self.0.extend([0x78, 0x01]);
            let mut blocks = bytes.chunks(60_000).peekable();
            while let Some(block) = blocks.next() {
                self.0.push(u8::from(blocks.peek().is_none()));
                let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
                self.0.extend(length.to_le_bytes());
                self.0.extend((!length).to_le_bytes());
                self.0.extend_from_slice(block);
                for &byte in block {
                    a = (a + u32::from(byte)) % 65_521;
                    b = (b + a) % 65_521;
                }
            }
            self.0.extend((b << 16 | a).to_be_bytes());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    Stored(out)
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}
