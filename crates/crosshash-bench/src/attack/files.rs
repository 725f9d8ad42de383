//! Picture files that ask for much memory or time, or that crash decoders: small and valid enough to
//! be accepted by their first bytes. Also used by the tests of the program.

/// A named file.
pub(crate) struct BadFile {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// A small picture with a colour profile of 512 MiB, which may be ignored or refused.
pub(crate) fn large_profile() -> Vec<u8> {
    profile_png(512 << 20)
}

/// All files; none can be decoded.
pub(crate) fn bad_files() -> Vec<BadFile> {
    let svg = |name: &'static str, body: String| {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" height=\"1000\" \
             viewBox=\"0 0 100 100\">{body}</svg>"
        );
        BadFile { name, bytes: text.into_bytes() }
    };
    let rect =
        |attributes: &str| format!("<rect width=\"90\" height=\"90\" {attributes}/>");
    let chain = |levels: usize, one: &dyn Fn(usize, usize) -> String| -> String {
        (0..levels).map(|k| one(k, k + 1)).collect()
    };
    let filtered = |filter: &str| {
        format!("<filter id=\"f\">{filter}</filter>{}", rect("filter=\"url(#f)\""))
    };
    vec![
        svg("nested-patterns.svg", {
            let all = chain(400, &|k, next| {
                format!(
                    "<pattern id=\"m{k}\" width=\"1\" height=\"1\">{}</pattern>",
                    rect(&format!("fill=\"url(#m{next})\""))
                )
            });
            all + &rect("fill=\"url(#m0)\"")
        }),
        svg("nested-patterns-by-class.svg", {
            let styles = chain(3000, &|k, next| format!(".c{k}{{fill:url(#m{next})}}"));
            let all = chain(3000, &|k, _| {
                format!(
                    "<pattern id=\"m{k}\" width=\"1\" height=\"1\">{}</pattern>",
                    rect(&format!("class=\"c{k}\""))
                )
            });
            format!("<style>{styles}</style>{all}{}", rect("fill=\"url(#m0)\""))
        }),
        svg("doubling-patterns.svg", {
            let all = chain(40, &|k, next| {
                let two = rect(&format!("fill=\"url(#m{next})\"")).repeat(2);
                format!("<pattern id=\"m{k}\" width=\"9\" height=\"9\">{two}</pattern>")
            });
            all + &rect("fill=\"url(#m0)\"")
        }),
        svg("nested-masks.svg", {
            let all = chain(400, &|k, next| {
                format!(
                    "<mask id=\"m{k}\">{}</mask>",
                    rect(&format!("mask=\"url(#m{next})\""))
                )
            });
            all + &rect("mask=\"url(#m0)\"")
        }),
        svg("nested-images.svg", {
            let all = chain(400, &|k, next| {
                format!(
                    "<filter id=\"f{k}\"><feImage href=\"#r{k}\"/></filter>{}",
                    rect(&format!("id=\"r{k}\" filter=\"url(#f{next})\""))
                )
            });
            all + &rect("filter=\"url(#f0)\"")
        }),
        svg("nested-clips.svg", {
            let all = chain(1000, &|k, next| {
                format!(
                    "<clipPath id=\"c{k}\" clip-path=\"url(#c{next})\">{}</clipPath>",
                    rect("")
                )
            });
            all + &rect("clip-path=\"url(#c0)\"")
        }),
        svg("layers.svg", {
            let (open, close) = ("<g opacity=\".9\">".repeat(200), "</g>".repeat(200));
            let wide = "<rect x=\"-900\" y=\"-900\" width=\"2000\" height=\"2000\"/>";
            format!("{open}{wide}{wide}{close}")
        }),
        svg("morphology.svg", filtered("<feMorphology radius=\"500\"/>")),
        svg(
            "turbulence.svg",
            filtered("<feTurbulence numOctaves=\"1000000\" baseFrequency=\"0.1\"/>"),
        ),
        svg("blurs.svg", filtered(&"<feGaussianBlur stdDeviation=\"9\"/>".repeat(5000))),
        svg("deep.svg", "<g>".repeat(100_000)),
        svg("uses.svg", {
            let all = chain(12, &|k, next| {
                format!(
                    "<g id=\"u{next}\">{}</g>",
                    format!("<use href=\"#u{k}\"/>").repeat(10)
                )
            });
            format!(
                "<defs><rect id=\"u0\" width=\"1\" height=\"1\"/>{all}</defs><use href=\"#u12\"/>"
            )
        }),
        BadFile { name: "huge.png", bytes: png(60_000, 60_000, &[]) },
        BadFile { name: "strip.png", bytes: png(32_768, 1, &[]) },
        BadFile {
            name: "huge.gif",
            bytes: b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x08".to_vec(),
        },
        BadFile {
            name: "cut.jpg",
            bytes: b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec(),
        },
        BadFile { name: "huge.bmp", bytes: bmp(32_000, 32_000) },
        BadFile { name: "loop.tif", bytes: tiff_loop() },
        BadFile {
            name: "huge.webp",
            bytes: b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\xff\xff\xff\x0f\0\0\0\0\0\0\0\0"
                .to_vec(),
        },
    ]
}

/// A PNG file without pixels; `extra` chunks come before them.
fn png(width: u32, height: u32, extra: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut header = width.to_be_bytes().to_vec();
    header.extend(height.to_be_bytes());
    header.extend([8, 2, 0, 0, 0]);
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        bytes.extend(u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
        let mut body = kind.to_vec();
        body.extend(data);
        bytes.extend(&body);
        bytes.extend(crc32(&body).to_be_bytes());
    };
    chunk(b"IHDR", &header);
    for (kind, data) in extra {
        chunk(kind, data);
    }
    chunk(b"IDAT", &zeros(1 << 10));
    chunk(b"IEND", &[]);
    bytes
}

/// A small PNG whose colour profile is this many bytes when it is decompressed.
fn profile_png(bytes: usize) -> Vec<u8> {
    let mut profile = b"x\0\0".to_vec();
    profile.extend(zeros(bytes));
    png(8, 8, &[(b"iCCP", profile)])
}

/// Zeros, compressed in the zlib format by one dynamic block: a length of 258 takes two bits.
fn zeros(count: usize) -> Vec<u8> {
    // fixed Huffman codes: a literal 0 is 00110000, length 258 is 11000101, distance 1 is 00000
    let mut bits: Vec<bool> = Vec::new();
    let push = |bits: &mut Vec<bool>, code: u32, length: u32| {
        bits.extend((0..length).rev().map(|at| code >> at & 1 == 1));
    };
    bits.extend([true, true, false]); // last block, fixed codes
    push(&mut bits, 0b0011_0000, 8);
    for _ in 0..count / 258 {
        push(&mut bits, 0b1100_0101, 8);
        push(&mut bits, 0, 5);
    }
    push(&mut bits, 0, 7); // end of the block
    let mut bytes = vec![0x78, 0x01];
    for chunk in bits.chunks(8) {
        bytes.push(
            chunk.iter().enumerate().fold(0, |byte, (at, &bit)| byte | u8::from(bit) << at),
        );
    }
    let length = 1 + count / 258 * 258;
    // Adler-32 of zeros
    let b = u32::try_from(length % 65_521).unwrap_or(0);
    bytes.extend((b << 16 | 1).to_be_bytes());
    bytes
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// The header of a BMP file.
fn bmp(width: i32, height: i32) -> Vec<u8> {
    let mut bytes = b"BM".to_vec();
    bytes.extend([0; 8]);
    bytes.extend(54_u32.to_le_bytes());
    bytes.extend(40_u32.to_le_bytes());
    bytes.extend(width.to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend([1, 0, 24, 0]);
    bytes.extend([0; 24]);
    bytes
}

/// A TIFF file whose list of directories is a loop.
fn tiff_loop() -> Vec<u8> {
    let mut bytes = b"II*\0\x08\0\0\0".to_vec();
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend([0x00, 0x01, 3, 0, 1, 0, 0, 0, 0xff, 0xff, 0, 0]);
    bytes.extend(8_u32.to_le_bytes());
    bytes
}
