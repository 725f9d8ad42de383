"""Writes the first inputs of the fuzz targets to fuzz/corpus, from the fixtures of the tests and from
generators: python3 fuzz/corpus.py SEEDS, where SEEDS is the built program `seeds`. Needs Pillow."""

import io
import pathlib
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "crates/crosshash/tests/fixtures"
OUT = ROOT / "fuzz/corpus"


def put(target, name, data):
    folder = OUT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def svg(body):
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" viewBox="0 0 40 40">'
    return (head + body + "</svg>").encode()


def codes():
    compat = (ROOT / "crates/crosshash-codes/tests/compat/v1.codes").read_bytes()
    put("codes", "v1", b"\0" + compat)
    put("codes", "v1-checksums", b"\1" + compat)
    for path in FIXTURES.glob("*.npy"):
        put("codes", path.name, b"\2" + path.read_bytes())
    put("codes", "labels", b"\3" + b"1 2 3\n\n0,5\n7;8\n")
    put("codes", "bits", b"\3" + b"0101\n1100\n")


def index(program):
    subprocess.run([program, OUT / "index"], check=True)


def filters():
    for nth, text in enumerate(
        [
            "label = animal",
            'label in (animal, "it\'s") and not (price < 3)',
            "exists(name) or tags contains 'a b'",
            "price >= 1.5 and price != 2e3 or id in (0, x1, xx2)",
            "new = true and name = 'x1'",
            "not not label = 1",
            "date > 2024-01-02T03:04:05Z",
        ]
    ):
        put("filter", str(nth), text.encode())


def pictures():
    rect = '<rect width="30" height="30" {}/>'
    put("pictures", "plain.svg", svg(rect.format('fill="red"')))
    chain = "".join(f'<pattern id="m{k}" width="9" height="9">{rect.format(f"fill=&quot;url(#m{k + 1})&quot;".replace("&quot;", chr(34)))}</pattern>' for k in range(4))
    put("pictures", "patterns.svg", svg(chain + rect.format('fill="url(#m0)"')))
    put("pictures", "mask.svg", svg(f'<mask id="m">{rect.format("")}</mask>' + rect.format('mask="url(#m)"')))
    put("pictures", "clip.svg", svg(f'<clipPath id="c">{rect.format("")}</clipPath>' + rect.format('clip-path="url(#c)"')))
    for name, one in [
        ("blur", '<feGaussianBlur stdDeviation="2"/>'),
        ("morphology", '<feMorphology radius="3"/>'),
        ("turbulence", '<feTurbulence numOctaves="3" baseFrequency="0.1"/>'),
        ("image", '<feImage href="#r"/>'),
    ]:
        put("pictures", f"{name}.svg", svg(f'<filter id="f">{one}</filter>' + rect.format('id="r" filter="url(#f)"')))
    put("pictures", "text.svg", svg('<g opacity=".5"><use href="#u"/><path id="u" d="M1 1L9 9Q3 4 5 6z"/></g>'))
    picture = Image.new("RGB", (24, 17))
    picture.putdata([(x * 10, y * 15, x * y % 256) for y in range(17) for x in range(24)])
    clear = picture.convert("RGBA")
    clear.putalpha(picture.convert("L"))
    turned = Image.Exif()
    turned[0x112] = 6
    for name, image, options in [
        ("jpg", picture, {"format": "JPEG", "quality": 60}),
        ("progressive.jpg", picture, {"format": "JPEG", "progressive": True}),
        ("grey.jpg", picture.convert("L"), {"format": "JPEG"}),
        ("cmyk.jpg", picture.convert("CMYK"), {"format": "JPEG"}),
        ("turned.jpg", picture, {"format": "JPEG", "exif": turned}),
        ("restarts.jpg", picture, {"format": "JPEG", "restart_marker_blocks": 2, "subsampling": 2}),
        ("rgb.png", picture, {"format": "PNG"}),
        ("palette.png", picture.quantize(16), {"format": "PNG", "transparency": 3}),
        ("rgba.png", clear, {"format": "PNG"}),
        ("16.png", picture.convert("I;16"), {"format": "PNG"}),
        ("gif", picture, {"format": "GIF"}),
        ("frames.gif", picture, {"format": "GIF", "save_all": True, "append_images": [picture.rotate(90)]}),
        ("lossy.webp", picture, {"format": "WEBP", "quality": 40}),
        ("lossless.webp", clear, {"format": "WEBP", "lossless": True}),
        ("frames.webp", clear, {"format": "WEBP", "save_all": True, "append_images": [clear.rotate(90)]}),
        ("bmp", picture, {"format": "BMP"}),
        ("palette.bmp", picture.quantize(16), {"format": "BMP"}),
        ("tiff", picture, {"format": "TIFF"}),
        ("lzw.tiff", picture, {"format": "TIFF", "compression": "tiff_lzw"}),
        ("deflate.tiff", clear, {"format": "TIFF", "compression": "tiff_adobe_deflate"}),
        ("jpeg.tiff", picture, {"format": "TIFF", "compression": "jpeg"}),
        ("fax.tiff", picture.convert("1"), {"format": "TIFF", "compression": "group4"}),
        ("packbits.tiff", picture.convert("L"), {"format": "TIFF", "compression": "packbits"}),
    ]:
        packed = io.BytesIO()
        image.save(packed, **options)
        put("pictures", name, packed.getvalue())

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
    png += chunk(b"iCCP", b"x\0\0" + zlib.compress(b"\0" * 100))
    png += chunk(b"IDAT", zlib.compress(b"\0abcdef" * 2)) + chunk(b"IEND", b"")
    put("pictures", "profile.png", png)
    return png


def readers(png):
    kinds = {".npy": 0, ".npz": 1, ".mat": 2, ".parquet": 3}
    for path in FIXTURES.iterdir():
        if path.suffix in kinds:
            put("readers", path.name, bytes([kinds[path.suffix]]) + path.read_bytes())
    empty = b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9), }\n"
    put("readers", "empty.npy", b"\0\x93NUMPY\1\0" + struct.pack("<H", len(empty)) + empty)
    put("readers", "tsv", b"\4id\ttext\tlabel\na\tcat\tx\nb\tdog\ty\n")
    put("readers", "jsonl", b'\5{"id":"a","text":"cat","label":["x"]}\n{"id":2,"text":"dog","label":"y"}\n')
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cats/a.png", png)
        archive.writestr("dogs/b.png", png)
    put("readers", "zip", b"\6" + packed.getvalue())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ["cats/a.png", "dogs/b.png"]:
            info = tarfile.TarInfo(name)
            info.size = len(png)
            archive.addfile(info, io.BytesIO(png))
    put("readers", "tar", b"\7" + packed.getvalue())


codes()
index(sys.argv[1])
filters()
readers(pictures())
