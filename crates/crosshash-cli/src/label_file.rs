//! Stand-in until `crosshash_codes::read` is merged: `.npy` of 0/1.
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use crosshash_codes::Labels;
use npyz::WriterBuilder as _;

pub(crate) fn labels(path: &Path) -> Result<Labels> {
    let npy = npyz::NpyFile::new(std::io::BufReader::new(fs_err::File::open(path)?))?;
    let &[_, classes] = npy.shape() else { bail!("not a matrix") };
    let values: Vec<u8> = npy.into_vec()?;
    Ok(Labels::from_dense(usize::try_from(classes)?, &values)?)
}

pub(crate) fn write_labels(path: &Path, labels: &Labels) -> Result<()> {
    let out = std::io::BufWriter::new(fs_err::File::create(path)?);
    let shape = [labels.len() as u64, labels.classes() as u64];
    let mut npy =
        npyz::WriteOptions::new().default_dtype().shape(&shape).writer(out).begin_nd()?;
    for i in 0..labels.len() {
        let mut row = vec![0_u8; labels.classes()];
        labels.indices(i).for_each(|s| row[s] = 1);
        npy.extend(row).context("row")?;
    }
    Ok(npy.finish()?)
}
