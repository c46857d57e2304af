//! Windows as rows of the same store: the key of a row is the start of the window and then the
//! key, so that rows lie in the order of time.
//!
//! The stream time is a row of its own. So it is staged, committed and forgotten like any other.

use std::ops::Bound;

use crate::scan::{Row, Scan};
use crate::store::{Result, Store};

/// How long a window is kept after its start, in milliseconds.
pub const RETENTION_MS: i64 = 180_000;

/// The size of a window, in milliseconds.
pub const WINDOW_SIZE_MS: i64 = 10_000;

/// The start of a window takes so many bytes, and is never negative: big-endian bytes sort alike.
const START_BYTES: usize = 8;

/// The number that tells records of one window apart in the changelog; here it is always zero.
const SEQUENCE_BYTES: usize = 4;

/// The row of the stream time. No window has an empty key, because its start is part of the key.
const STREAM_TIME: &[u8] = b"";

/// The keys and the times of a scan; both ends belong to it, and no end is an open one.
pub struct Span {
    pub key_from: Option<Vec<u8>>,
    pub key_to: Option<Vec<u8>>,
    pub time_from: i64,
    pub time_to: i64,
}

impl Span {
    /// Whether the key of a window is between the ends.
    pub fn has(&self, key: &[u8]) -> bool {
        let after = self
            .key_from
            .as_ref()
            .is_none_or(|from| key >= from.as_slice());
        after && self.key_to.as_ref().is_none_or(|to| key <= to.as_slice())
    }
}

/// The key of a row.
pub fn row_key(key: &[u8], start: i64) -> Vec<u8> {
    [&start.to_be_bytes()[..], key].concat()
}

/// The key and the start of the window of a row; nothing for the row of the stream time.
pub fn window_of(row: &Row) -> Option<(&[u8], i64)> {
    let (start, key) = row.0.split_first_chunk::<START_BYTES>()?;
    Some((key, i64::from_be_bytes(*start)))
}

/// The key and the start of the window of a record of the changelog, which has the key first.
pub fn window_of_record(raw: &[u8]) -> Option<(&[u8], i64)> {
    let end = raw.len().checked_sub(SEQUENCE_BYTES)?;
    let (key, start) = raw[..end].split_last_chunk::<START_BYTES>()?;
    Some((key, i64::from_be_bytes(*start)))
}

/// The end of a window, which is at the latest the end of time.
pub fn end_of(start: i64) -> i64 {
    start.saturating_add(WINDOW_SIZE_MS)
}

/// Write the value of a key into a window; `false` if the window has expired.
pub fn put(store: &mut Store, key: &[u8], start: i64, value: Option<Vec<u8>>) -> Result<bool> {
    let stream_time = stream_time(store)?;
    if start > stream_time.unwrap_or(-1) {
        store.put(STREAM_TIME.to_vec(), Some(start.to_be_bytes().to_vec()));
    } else if start < first_kept(stream_time) {
        return Ok(false);
    }
    store.put(row_key(key, start), value);
    Ok(true)
}

/// The value of a key in a window that has not expired.
pub fn fetch(store: &Store, key: &[u8], start: i64) -> Result<Option<Vec<u8>>> {
    if start < first_kept(stream_time(store)?) {
        return Ok(None);
    }
    store.get(&row_key(key, start))
}

/// The windows of a span of time that have not expired, with any key.
pub fn scan(store: &Store, span: &Span, reverse: bool) -> Result<Scan> {
    let first = span.time_from.max(first_kept(stream_time(store)?)).max(0);
    let end = span
        .time_to
        .checked_add(1)
        .map(|end| end.max(0).to_be_bytes());
    let low = Bound::Included(&first.to_be_bytes()[..]);
    let high = end
        .as_ref()
        .map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
    store.scan(low, high, reverse)
}

fn stream_time(store: &Store) -> Result<Option<i64>> {
    let bytes = store.get(STREAM_TIME)?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok().map(i64::from_be_bytes)))
}

/// The start of the first window that has not expired.
fn first_kept(stream_time: Option<i64>) -> i64 {
    stream_time.map_or(0, |time| time - RETENTION_MS + 1)
}
