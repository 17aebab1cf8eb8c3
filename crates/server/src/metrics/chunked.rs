//! A table that grows without moving what is in it, so that nobody has to lock it: rules come and go while requests are counted.

use std::sync::OnceLock;

/// Entries of one chunk.
const CHUNK: usize = 256;

/// Entries by number, made in chunks when first asked for.
#[derive(Debug)]
pub(super) struct Chunked<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
}

impl<T> Chunked<T> {
    /// The most entries there can be. With one of 64 bytes for each, 4 MiB.
    pub(super) const LEN_MAX: usize = 1 << 16;
}

impl<T: Default> Chunked<T> {
    pub(super) fn new() -> Chunked<T> {
        Chunked { chunks: (0..Chunked::<T>::LEN_MAX / CHUNK).map(|_| OnceLock::new()).collect() }
    }

    /// The entry of a number, if it is below [`Chunked::LEN_MAX`].
    #[inline]
    pub(super) fn at(&self, index: usize) -> Option<&T> {
        let chunk = self.chunks.get(index / CHUNK)?;
        chunk.get_or_init(|| (0..CHUNK).map(|_| T::default()).collect()).get(index % CHUNK)
    }

    /// All entries that were made.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let made = self.chunks.iter().enumerate().filter_map(|(at, chunk)| Some((at, chunk.get()?)));
        made.flat_map(|(at, chunk)| {
            chunk.iter().enumerate().map(move |(index, entry)| (at * CHUNK + index, entry))
        })
    }
}
