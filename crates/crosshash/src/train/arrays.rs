//! Parameters and towers as arrays of a checkpoint, with the state of their optimiser.

use burn_tensor::Device;

use crate::checkpoint::Arrays;
use crate::optimise::{Param, Sgd};
use crate::tower::{Matrix, Shape, Tower};
use crate::{Error, Result};

impl Arrays {
    /// Adds a parameter; `full`: with its velocity.
    pub(crate) fn push_param(&mut self, name: &str, param: &Param, full: bool) {
        let columns = param.shape()[1];
        if full {
            self.push(format!("velocity.{name}"), columns, param.velocity().to_vec());
        }
        self.push(format!("now.{name}"), columns, param.values());
    }

    /// Takes a parameter of this shape; `None` if its shape differs.
    pub(crate) fn take_param(
        &mut self,
        name: &str,
        [rows, columns]: [usize; 2],
        full: bool,
        device: &Device,
    ) -> Result<Option<Param>> {
        let (found, values, velocity) = self.take_matrix(name, full)?;
        let fits = found == columns
            && values.len() == rows * columns
            && velocity.len() == values.len();
        Ok(fits.then(|| Param::resume(values, velocity, columns, device)))
    }

    /// Adds the matrices of a tower; `full`: with velocities and pending updates.
    pub(crate) fn push_tower(&mut self, name: &str, tower: &Tower, full: bool) {
        for m in tower.matrices(full) {
            if full {
                self.push(format!("velocity.{name}.{}", m.name), m.columns, m.velocity);
            }
            self.push(format!("now.{name}.{}", m.name), m.columns, m.values);
        }
        if let Some(pending) = tower.pending().filter(|_| full) {
            self.push(format!("pending.{name}"), 1, pending);
        }
    }

    /// Restores a tower; pending updates were to be applied with `sgd`.
    pub(crate) fn take_tower(
        &mut self,
        name: &str,
        tower: &mut Tower,
        full: bool,
        sgd: Sgd,
    ) -> Result<()> {
        let mut matrices = Vec::new();
        for part in tower.names() {
            let (columns, values, velocity) =
                self.take_matrix(&format!("{name}.{part}"), full)?;
            matrices.push(Matrix { name: part, columns, values, velocity });
        }
        if !tower.restore(matrices) {
            return Err(misfit(name));
        }
        let pending = format!("pending.{name}");
        if full && self.contains(&pending) {
            tower.set_pending(&self.take(&pending)?.values, sgd);
        }
        Ok(())
    }

    /// Takes a tower of this shape.
    pub(crate) fn tower(
        &mut self,
        name: &str,
        shape: Shape,
        device: &Device,
    ) -> Result<Tower> {
        let mut matrices = Vec::new();
        for part in shape.names() {
            let (columns, values, velocity) =
                self.take_matrix(&format!("{name}.{part}"), false)?;
            matrices.push(Matrix { name: part, columns, values, velocity });
        }
        Tower::from_matrices(shape, matrices, device).ok_or_else(|| misfit(name))
    }

    /// Columns, values and velocity of a matrix.
    fn take_matrix(
        &mut self,
        name: &str,
        full: bool,
    ) -> Result<(usize, Vec<f32>, Vec<f32>)> {
        let array = self.take(&format!("now.{name}"))?;
        let velocity = if full {
            self.take(&format!("velocity.{name}"))?.values
        } else {
            vec![0.0; array.values.len()]
        };
        Ok((array.columns, array.values, velocity))
    }
}

fn misfit(name: &str) -> Error {
    Error::content(format!("the tower of modality {name} differs from the configuration"))
}
