//! `Snapshot`: the items of one commit, for readers. It stays as it is, whatever the writer does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::file::Segment;
use super::manifest::{IdKind, Manifest};
use crate::format::{CodeFile, Id, Ids};
use crate::index::{Filter, Hit, Index, ItemSet, Query, Scan, Scored, build, rerank};
use crate::{Bits, Codes, Error, Labels, Result};

/// Segments of fewer rows are scanned, whatever kind of index is asked for.
const FEW: usize = 1 << 13;
/// How often a reader starts again when the writer removes files under its hands.
const ATTEMPTS: usize = 20;

/// One answer with the caller's id.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What the caller calls the item.
    pub id: Id,
    /// Its distance and number.
    pub hit: Hit,
    /// Its score, if the hits were re-ranked by a real-valued query.
    pub score: Option<f32>,
}

/// What `crosshash index info` tells.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Code length.
    pub bits: usize,
    /// Items that can be found.
    pub items: usize,
    /// Rows of removed items that still take room.
    pub removed: usize,
    /// Segments.
    pub segments: usize,
    /// Commits so far.
    pub commit: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// `numbers` or `names`.
    pub ids: Option<&'static str>,
    /// How many labels there are.
    pub labels: usize,
    /// Whether labels have names.
    pub label_names: bool,
}

/// An opened index.
pub struct Snapshot {
    pub(super) folder: PathBuf,
    pub(super) manifest: Manifest,
    pub(super) segments: Vec<Segment>,
    /// The first item number of every segment, and the number of all.
    pub(super) bases: Vec<u32>,
    /// The items that are not removed; `None` if none is.
    pub(super) live: Option<ItemSet>,
    /// One per segment; shared with the snapshots before and after.
    indexes: Vec<Arc<dyn Index>>,
    /// Which of them are more than a scan, or need not be.
    built: Vec<bool>,
}

impl Snapshot {
    /// Opens what was committed last. Maps the segments without reading them.
    pub fn open(folder: &Path) -> Result<Snapshot> {
        let mut manifest = Manifest::read(folder)?;
        for _ in 0..ATTEMPTS {
            match Self::over(folder, manifest.clone()) {
                Err(Error::Io(err)) if err.kind() == std::io::ErrorKind::NotFound => {
                    // a writer may have merged the segments since the manifest was read
                    let again = Manifest::read(folder)?;
                    if again == manifest {
                        return Err(err.into());
                    }
                    manifest = again;
                }
                other => return other,
            }
        }
        Err(Error::content(format!("{}: changes faster than it opens", folder.display())))
    }

    pub(super) fn over(folder: &Path, manifest: Manifest) -> Result<Snapshot> {
        let bits = Bits::new(manifest.bits)?;
        let mut segments = Vec::new();
        let mut bases = vec![0_u32];
        let mut total = 0_usize;
        for listed in &manifest.segments {
            let path = Manifest::path(folder, listed.number);
            let length = fs_err::metadata(&path)?.len();
            let segment = Segment::open(&path, listed.number)?;
            let fits = segment.rows() as u64 == listed.rows && length == listed.bytes;
            if !fits || segment.codes.bits() != bits {
                return Err(Error::content(
                    "not the segment that the manifest lists; restore the index from a copy",
                )
                .at(&path));
            }
            total += segment.rows();
            bases.push(u32::try_from(total).map_err(|_| too_many(total))?);
            segments.push(segment);
        }
        let live = live(&segments, &bases)?;
        let scan = |segment: &Segment| -> Result<Arc<dyn Index>> {
            Ok(Arc::new(Scan::new(segment.codes.clone())?))
        };
        let indexes = segments.iter().map(scan).collect::<Result<_>>()?;
        let built = segments.iter().map(|segment| segment.rows() < FEW).collect();
        let folder = folder.to_owned();
        Ok(Snapshot { folder, manifest, segments, bases, live, indexes, built })
    }

    /// Builds an index of a kind (see [`INDEXES`](crate::index::INDEXES)) over every segment that is large enough and
    /// has none yet. Without it everything is scanned.
    pub fn prepare(&mut self, kind: &str, progress: &(dyn Fn(usize) + Sync)) -> Result<()> {
        build(kind, Codes::new(self.bits()), &|_| ())?; // an unknown name is refused first
        for (nth, segment) in self.segments.iter().enumerate() {
            if self.built[nth] {
                continue;
            }
            let before = self.bases[nth] as usize;
            let made = build(kind, segment.codes.clone(), &|done| progress(before + done))?;
            self.indexes[nth] = made.into();
            self.built[nth] = true;
        }
        Ok(())
    }

    /// Takes over what another snapshot of the same folder has built for segments that both
    /// have: segments never change, so neither do their indexes.
    pub fn adopt(&mut self, other: &Snapshot) {
        for (nth, segment) in self.segments.iter().enumerate() {
            let same = other.segments.binary_search_by_key(&segment.number, |s| s.number);
            let Ok(same) = same else { continue };
            if !self.built[nth] && other.built[same] {
                self.indexes[nth] = Arc::clone(&other.indexes[same]);
                self.built[nth] = true;
            }
        }
    }

    /// Whether [`Snapshot::prepare`] has nothing left to do.
    pub fn is_prepared(&self) -> bool {
        self.built.iter().all(|&built| built)
    }

    /// The words of an item's code.
    pub fn code(&self, item: u32) -> &[u64] {
        let (segment, row) = self.place(item);
        segment.codes.code(row)
    }

    /// How every segment is searched.
    pub fn explain(&self) -> Vec<String> {
        self.indexes.iter().map(|index| index.explain()).collect()
    }

    /// The code length.
    pub fn bits(&self) -> Bits {
        self.segments.first().map_or_else(
            || Bits::new(self.manifest.bits).unwrap_or_else(|_| unreachable!("checked")),
            |segment| segment.codes.bits(),
        )
    }

    /// How many items can be found.
    pub fn len(&self) -> usize {
        self.live.as_ref().map_or(self.rows(), ItemSet::count)
    }

    /// Whether no item can be found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows, removed ones too.
    pub(super) fn rows(&self) -> usize {
        self.bases.last().map_or(0, |&rows| rows as usize)
    }

    /// The names of the labels; empty if they have none.
    pub fn label_names(&self) -> &[String] {
        &self.manifest.label_names
    }

    /// What there is.
    pub fn info(&self) -> Info {
        Info {
            bits: self.manifest.bits,
            items: self.len(),
            removed: self.rows() - self.len(),
            segments: self.segments.len(),
            commit: self.manifest.commit,
            bytes: self.manifest.segments.iter().map(|segment| segment.bytes).sum(),
            ids: self.manifest.ids.map(|kind| match kind {
                IdKind::Numbers => "numbers",
                IdKind::Names => "names",
            }),
            labels: self.manifest.classes,
            label_names: !self.manifest.label_names.is_empty(),
        }
    }

    /// The items for which a filter expression holds, removed ones left out.
    pub fn filter(&self, text: &str) -> Result<ItemSet> {
        let filter =
            Filter::parse(text, self.manifest.classes, &self.manifest.label_names)?;
        let carries = |item: u32, any: &[usize]| {
            let (segment, row) = self.place(item);
            segment.carries(row, any)
        };
        let find = |id: &str| self.find(&self.typed_id(id)?).ok().flatten();
        let set = filter.items(self.rows(), &carries, &find);
        Ok(match &self.live {
            Some(live) => set.intersection(live),
            None => set,
        })
    }

    /// An id as it was typed; `None` if it cannot be one.
    pub fn typed_id(&self, text: &str) -> Option<Id> {
        match self.manifest.ids {
            Some(IdKind::Numbers) => text.parse().ok().map(Id::Number),
            _ => Some(Id::Name(text.to_owned())),
        }
    }

    /// The item with this id, newest first.
    pub fn find(&self, id: &Id) -> Result<Option<u32>> {
        for (segment, base) in self.segments.iter().zip(&self.bases).rev() {
            if let Some(row) = segment.find(id)? {
                let item = base + row;
                if self.live.as_ref().is_none_or(|live| live.contains(item)) {
                    return Ok(Some(item));
                }
            }
        }
        Ok(None)
    }

    /// What the caller calls an item.
    pub fn id(&self, item: u32) -> Result<Id> {
        let (segment, row) = self.place(item);
        segment.id(row)
    }

    /// The labels of an item, ascending.
    pub fn labels(&self, item: u32) -> Vec<usize> {
        let (segment, row) = self.place(item);
        let words = segment.label_words(row);
        (0..words.len() * 64).filter(|l| words[l / 64] >> (l % 64) & 1 == 1).collect()
    }

    /// The hits of every query with their ids; removed items are never among them.
    /// `query.allowed`, if given, comes from [`Snapshot::filter`].
    pub fn search(
        &self,
        queries: &Codes,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Found>>> {
        let found = self.hits(queries, query, progress)?;
        let with_id = |hit: Hit| Ok(Found { id: self.id(hit.item)?, hit, score: None });
        found.into_iter().map(|hits| hits.into_iter().map(with_id).collect()).collect()
    }

    /// The `candidates` nearest items of every query by Hamming distance, re-ranked by its
    /// real outputs; as many of them as `query.k`, after leaving out `query.skip`.
    pub fn search_reals(
        &self,
        outputs: &[f32],
        candidates: usize,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Found>>> {
        let queries = Codes::from_signs(self.bits(), outputs)?;
        let depth = query.k.saturating_add(query.skip);
        let wide = Query { k: candidates.max(depth), skip: 0, ..*query };
        let found = self.hits(&queries, &wide, progress)?;
        let ranked = |(hits, outputs): (Vec<Hit>, &[f32])| -> Result<Vec<Found>> {
            let codes = self.codes_of(&hits);
            let local = |(at, hit): (u32, &Hit)| Hit { item: at, ..*hit };
            let local: Vec<Hit> = (0..).zip(&hits).map(local).collect();
            let scored = rerank(&codes, outputs, &local)?;
            let of = |Scored { hit, score }: Scored| {
                let hit = hits[hit.item as usize];
                Ok(Found { id: self.id(hit.item)?, hit, score: Some(score) })
            };
            scored.into_iter().skip(query.skip).take(query.k).map(of).collect()
        };
        found.into_iter().zip(outputs.chunks(self.bits().get())).map(ranked).collect()
    }

    fn codes_of(&self, hits: &[Hit]) -> Codes {
        let words = hits.iter().flat_map(|hit| self.code(hit.item)).copied().collect();
        Codes::from_words(self.bits(), words).unwrap_or_else(|_| Codes::new(self.bits()))
    }

    fn hits(
        &self,
        queries: &Codes,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Hit>>> {
        query.check_bits(self.bits(), queries)?;
        let allowed = query.allowed.or(self.live.as_ref());
        let mut answers: Vec<Vec<Hit>> = vec![Vec::new(); queries.len()];
        let parts = self.indexes.len();
        let depth = query.k.saturating_add(query.skip);
        for (nth, index) in self.indexes.iter().enumerate() {
            let (base, rows) = (self.bases[nth], index.codes().len());
            let part = allowed.map(|items| items.slice(base as usize, rows));
            let part = part.filter(|items| items.count() < rows);
            let ask = Query { k: depth, skip: 0, allowed: part.as_ref(), ..*query };
            let so_far = |done: usize| progress((nth * queries.len() + done) / parts);
            let found = index.search(queries, &ask, &so_far)?;
            for (answer, hits) in answers.iter_mut().zip(found) {
                answer.extend(hits.iter().map(|hit| Hit { item: hit.item + base, ..*hit }));
            }
        }
        for answer in &mut answers {
            if parts > 1 {
                answer.sort_unstable();
            }
            answer.drain(..query.skip.min(answer.len()));
            answer.truncate(query.k);
        }
        Ok(answers)
    }

    /// Everything that can be found, in the order of item numbers: for export.
    pub fn to_code_file(&self) -> Result<CodeFile> {
        self.live_rows(0)
    }

    /// The items that can be found in the segments from `first` on.
    pub(super) fn live_rows(&self, first: usize) -> Result<CodeFile> {
        let mut words = Vec::new();
        let (mut numbers, mut names, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        let stride = self.manifest.classes.div_ceil(64);
        let mut rows = 0;
        for (segment, &base) in self.segments.iter().zip(&self.bases).skip(first) {
            for (row, item) in (0..segment.rows()).zip(base..) {
                if self.live.as_ref().is_some_and(|live| !live.contains(item)) {
                    continue;
                }
                rows += 1;
                words.extend_from_slice(segment.codes.code(row));
                match segment.id(row)? {
                    Id::Number(number) => numbers.push(number),
                    Id::Name(name) => names.push(name),
                }
                let own = segment.label_words(row);
                labels.extend_from_slice(own);
                labels.extend(std::iter::repeat_n(0, stride.saturating_sub(own.len())));
            }
        }
        let ids = self.manifest.ids.map(|kind| match kind {
            IdKind::Numbers => Ids::Numbers(numbers),
            IdKind::Names => Ids::Names(names),
        });
        let labels = match self.manifest.classes {
            0 => None,
            classes => Some(Labels::from_words(classes, rows, labels)?),
        };
        Ok(CodeFile { codes: Codes::from_words(self.bits(), words)?, ids, labels })
    }

    /// Makes an index of this state in a new folder. Segments never change, so they are linked
    /// where the file system can, and copied where it cannot.
    pub fn copy_to(&self, folder: &Path) -> Result<()> {
        fs_err::create_dir_all(folder)?;
        if fs_err::read_dir(folder)?.next().is_some() {
            return Err(Error::content(format!(
                "{} is not empty; name a folder that is",
                folder.display()
            )));
        }
        for listed in &self.manifest.segments {
            let from = Manifest::path(&self.folder, listed.number);
            let to = Manifest::path(folder, listed.number);
            if std::fs::hard_link(&from, &to).is_err() {
                fs_err::copy(&from, &to)?;
                fs_err::File::open(&to)?.sync_all()?;
            }
        }
        self.manifest.write(folder)
    }

    /// Reads everything once and compares it with its checksums.
    pub fn verify(&self) -> Result<()> {
        self.segments.iter().try_for_each(|segment| {
            let path = Manifest::path(&self.folder, segment.number);
            segment.verify().map_err(|err| err.at(&path))
        })
    }

    /// The segment and row of an item.
    fn place(&self, item: u32) -> (&Segment, usize) {
        let nth = self.bases.partition_point(|&base| base <= item) - 1;
        (&self.segments[nth], (item - self.bases[nth]) as usize)
    }
}

/// The items that no segment removed; `None` if none is.
fn live(segments: &[Segment], bases: &[u32]) -> Result<Option<ItemSet>> {
    if segments.iter().all(|segment| segment.removed.is_empty()) {
        return Ok(None);
    }
    let rows = bases.last().map_or(0, |&rows| rows as usize);
    let mut gone = ItemSet::none(rows);
    for segment in segments {
        for &(number, row) in &segment.removed {
            let nth = segments.binary_search_by_key(&number, |other| other.number);
            let item = nth.ok().filter(|&nth| (row as usize) < segments[nth].rows());
            let Some(nth) = item else {
                return Err(Error::content(format!(
                    "segment {} removes row {row} of segment {number}, which does not exist; \
                     restore the index from a copy",
                    segment.number
                )));
            };
            gone.insert(bases[nth] + row);
        }
    }
    Ok(Some(gone.complement()))
}

pub(super) fn too_many(rows: usize) -> Error {
    Error::content(format!(
        "{rows} rows; one index holds at most {}: compact it or make several",
        u32::MAX
    ))
}
