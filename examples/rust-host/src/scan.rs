//! A scan that can be read in pages: staged rows laid over the committed ones.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::vec::IntoIter;

use redb::OwnedRange;

use crate::store::Result;

pub type Row = (Vec<u8>, Vec<u8>);
pub type StagedRow = (Vec<u8>, Option<Vec<u8>>);

/// Sees what was there when it was made, whatever is written or committed later: it has a copy of
/// what was staged in its range, and a snapshot of the database.
pub struct Scan {
    staged: Peekable<IntoIter<StagedRow>>,
    committed: Option<OwnedRange<&'static [u8], &'static [u8]>>,
    /// The next committed row, if it was read already.
    ahead: Option<Row>,
    reverse: bool,
}

impl Scan {
    pub fn new(
        mut staged: Vec<StagedRow>,
        committed: OwnedRange<&'static [u8], &'static [u8]>,
        reverse: bool,
    ) -> Self {
        if reverse {
            staged.reverse();
        }
        Self {
            staged: staged.into_iter().peekable(),
            committed: Some(committed),
            ahead: None,
            reverse,
        }
    }

    pub fn empty() -> Self {
        Self {
            staged: Vec::new().into_iter().peekable(),
            committed: None,
            ahead: None,
            reverse: false,
        }
    }

    /// The next row; none at the end.
    pub fn next_row(&mut self) -> Result<Option<Row>> {
        loop {
            if self.ahead.is_none() {
                self.ahead = self.next_committed()?;
            }
            let order = match (self.staged.peek(), &self.ahead) {
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
                (Some((staged, _)), Some((committed, _))) if self.reverse => committed.cmp(staged),
                (Some((staged, _)), Some((committed, _))) => staged.cmp(committed),
            };
            if order == Ordering::Greater {
                return Ok(self.ahead.take());
            }
            if order == Ordering::Equal {
                self.ahead = None;
            }
            if let Some((key, Some(value))) = self.staged.next() {
                return Ok(Some((key, value)));
            }
        }
    }

    fn next_committed(&mut self) -> Result<Option<Row>> {
        let Some(rows) = &mut self.committed else {
            return Ok(None);
        };
        let row = if self.reverse {
            rows.next_back()
        } else {
            rows.next()
        };
        let Some(row) = row else {
            self.committed = None;
            return Ok(None);
        };
        let (key, value) = row?;
        Ok(Some((key.value().to_vec(), value.value().to_vec())))
    }
}
