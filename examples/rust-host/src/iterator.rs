//! Iterators of the protocol: scans whose rows become JSON.

use serde_json::{Value, json};

use crate::scan::{Row, Scan};
use crate::store::Result;
use crate::windows::{Span, end_of, window_of};
use crate::wire::encoded;

/// How the keys of rows look to the client.
pub enum Keys {
    Plain,
    /// The start of the window alone, because all rows have one key.
    Starts(Span),
    /// The key with its window.
    Windowed(Span),
}

pub struct RowIterator {
    scan: Scan,
    keys: Keys,
    /// The next row, if it was looked at already.
    ahead: Option<Row>,
}

impl RowIterator {
    pub fn new(scan: Scan, keys: Keys) -> Self {
        Self {
            scan,
            keys,
            ahead: None,
        }
    }

    /// Up to the given number of the next rows; fewer at the end.
    pub fn page(&mut self, limit: usize) -> Result<Vec<Value>> {
        let mut rows = Vec::new();
        while rows.len() < limit {
            match self.next_row()? {
                Some(row) => rows.push(json!([self.key(&row), encoded(Some(&row.1))])),
                None => break,
            }
        }
        Ok(rows)
    }

    /// The key of the next row, which stays the next one; null at the end.
    pub fn peek_next_key(&mut self) -> Result<Value> {
        self.ahead = self.next_row()?;
        Ok(self.ahead.as_ref().map_or(Value::Null, |row| self.key(row)))
    }

    fn next_row(&mut self) -> Result<Option<Row>> {
        if let Some(row) = self.ahead.take() {
            return Ok(Some(row));
        }
        while let Some(row) = self.scan.next_row()? {
            if self.has(&row) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Whether a row is asked for: rows of a span of time have any key.
    fn has(&self, row: &Row) -> bool {
        match &self.keys {
            Keys::Plain => true,
            Keys::Starts(span) | Keys::Windowed(span) => {
                window_of(row).is_some_and(|(key, _)| span.has(key))
            }
        }
    }

    fn key(&self, row: &Row) -> Value {
        match (&self.keys, window_of(row)) {
            (Keys::Starts(_), Some((_, start))) => json!(start),
            (Keys::Windowed(_), Some((key, start))) => {
                json!([encoded(Some(key)), [start, end_of(start)]])
            }
            _ => encoded(Some(&row.0)),
        }
    }
}
