//! `HugeVec`: a zeroed array in huge pages, if the system provides them. Buckets are read in random
//! order, and with small pages nearly every read misses the translation buffer too.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;

/// Arrays of fewer bytes stay in ordinary memory.
const SMALL: usize = 1 << 22;

pub(super) struct HugeVec<T> {
    memory: Memory<T>,
}

enum Memory<T> {
    Ordinary(Vec<T>),
    Mapped(memmap2::MmapMut, usize, PhantomData<T>),
}

impl<T: Pod> HugeVec<T> {
    pub(super) fn zeroed(len: usize) -> HugeVec<T> {
        let bytes = len * size_of::<T>();
        let map = if bytes < SMALL { None } else { memmap2::MmapMut::map_anon(bytes).ok() };
        let memory = match map {
            Some(map) => {
                // a hint: if it is ignored, only speed suffers
                #[cfg(target_os = "linux")]
                let _ = map.advise(memmap2::Advice::HugePage);
                Memory::Mapped(map, len, PhantomData)
            }
            None => Memory::Ordinary(vec![T::zeroed(); len]),
        };
        HugeVec { memory }
    }
}

impl<T: Pod> Deref for HugeVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.memory {
            Memory::Ordinary(values) => values,
            Memory::Mapped(map, len, _) => {
                &bytemuck::cast_slice(&map[..len * size_of::<T>()])[..*len]
            }
        }
    }
}

impl<T: Pod> DerefMut for HugeVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Ordinary(values) => values,
            Memory::Mapped(map, len, _) => {
                let bytes = *len * size_of::<T>();
                bytemuck::cast_slice_mut(&mut map[..bytes])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_arrays_keep_their_values() {
        for len in [0, 5, SMALL] {
            let mut values = HugeVec::<u32>::zeroed(len);
            assert_eq!(values.len(), len);
            assert!(values.iter().all(|&value| value == 0));
            for (i, value) in (0_u32..).zip(values.iter_mut()) {
                *value = i;
            }
            assert!((0_u32..).zip(values.iter()).all(|(i, &value)| value == i));
        }
    }
}
