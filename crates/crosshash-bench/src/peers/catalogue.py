"""Make a folder of photographs as a user has it, from IAPR TC-12, to try `crosshash start` on.

    python3 catalogue.py PATH/iaprtc12 OUT --items 1200 [--skip 0] [--no-captions]

OUT/photos has the pictures and, unless --no-captions, captions.csv with the columns file_name and caption
(English). OUT/labels.tsv has the hidden labels and captions (id, label names separated by commas, caption) for
`crosshash-bench typed --judge`; `crosshash start` does not see it. The pictures are drawn by a fixed seed; --skip
leaves out the first of the drawn order, so that more pictures can be added later.
"""

import argparse
import csv
import pathlib
import random
import zipfile


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--items", type=int, default=1200)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--no-captions", action="store_true")
    args = parser.parse_args()

    names = (args.data / "iaprtc12_dictionary.txt").read_text("utf-8").split("\n")
    with open(args.data / "samples.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for row in rows if row["description_en"].strip() and row["labels"].strip()]
    random.Random(0).shuffle(rows)
    rows = rows[args.skip : args.skip + args.items]

    photos = args.out / "photos"
    photos.mkdir(parents=True, exist_ok=True)
    flat = {row["id"]: row["id"].replace("/", "-") for row in rows}
    with zipfile.ZipFile(args.data / "images96.zip") as pictures:
        for row in rows:
            (photos / f"{flat[row['id']]}.jpg").write_bytes(pictures.read(f"{row['id']}.jpg"))
    if not args.no_captions:
        with open(photos / "captions.csv", "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["file_name", "caption"])
            table.writerows([f"{flat[row['id']]}.jpg", row["description_en"]] for row in rows)
    with open(args.out / "labels.tsv", "w", encoding="utf-8") as file:
        for row in rows:
            labels = ",".join(names[int(label)] for label in row["labels"].split())
            print(flat[row["id"]], labels, row["description_en"], sep="\t", file=file)


if __name__ == "__main__":
    main()
