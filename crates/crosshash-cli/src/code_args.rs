//! Arguments for reading codes, shared by several commands.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use crosshash_codes::read::{CodeOptions, Layout};
use crosshash_codes::{BitOrder, Bits};

#[derive(clap::Args)]
pub(crate) struct CodeArgs {
    /// Code length, if the file does not contain it [default for packed codes: 8 x bytes].
    #[arg(long, value_name = "R")]
    bits: Option<usize>,

    /// Layout of a code matrix.
    #[arg(long, value_enum, default_value_t = LayoutArg::Auto)]
    layout: LayoutArg,

    /// Order of the bits in a packed byte; `auto` infers it from the padding.
    #[arg(long, value_enum, default_value_t = OrderArg::Auto)]
    bit_order: OrderArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum LayoutArg {
    /// packed if uint8 and not all 0/1; otherwise one value per bit
    Auto,
    /// uint8, eight bits per byte
    Packed,
    /// one value per bit: 0/1 or -1/+1
    Matrix,
    /// real values; a bit is 1 if its value is >= 0
    Real,
}

#[derive(Clone, Copy, ValueEnum)]
enum OrderArg {
    Auto,
    /// lowest bit first: FAISS, crosshash, np.packbits(bitorder="little")
    Lsb,
    /// highest bit first: np.packbits, PostgreSQL, Milvus
    Msb,
}

impl CodeArgs {
    pub(crate) fn options(&self) -> Result<CodeOptions> {
        Ok(CodeOptions {
            bits: self.bits.map(Bits::new).transpose().context("--bits")?,
            layout: match self.layout {
                LayoutArg::Auto => Layout::Auto,
                LayoutArg::Packed => Layout::Packed,
                LayoutArg::Matrix => Layout::Matrix,
                LayoutArg::Real => Layout::Real,
            },
            order: match self.bit_order {
                OrderArg::Auto => None,
                OrderArg::Lsb => Some(BitOrder::Lsb),
                OrderArg::Msb => Some(BitOrder::Msb),
            },
        })
    }
}
