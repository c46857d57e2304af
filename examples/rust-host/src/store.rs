//! A transactional store of bytes on redb: writes wait in memory for their commit.
//!
//! Three decisions make it right:
//!
//! 1. Writes are staged in a sorted map and laid over the database for reading, so that a crash
//!    forgets what was not committed.
//! 2. The changelog offsets are a table of the *same* database, and a commit is one transaction.
//! 3. redb syncs the file before a commit returns. We make it under another name, and sync the
//!    directory that it is renamed in.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Bound;
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition, WriteTransaction};

use crate::scan::Scan;

const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");
const OFFSETS: TableDefinition<(&str, i32), i64> = TableDefinition::new("offsets");

const FILE: &str = "store.redb";
const UNFINISHED_FILE: &str = "unfinished.redb";

/// Memory for pages, in bytes. redb takes a gigabyte unless told, and a task has many stores.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// What redb says when something fails; all of its errors turn into this one.
pub type Result<T> = std::result::Result<T, redb::Error>;

/// One partition of the changelog.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Partition {
    pub topic: String,
    pub number: i32,
}

/// A mistake that can be made on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bug {
    /// A commit writes the offsets in a transaction of their own, before the entries.
    OffsetsFirst,
}

/// The writes that wait for their commit; `None` is a deletion.
#[derive(Default)]
struct Staged {
    rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    num_bytes: usize,
}

pub struct Store {
    database: Database,
    staged: Staged,
    bug: Option<Bug>,
}

impl Store {
    /// Open the database in a directory, or make both; it is in its last commit.
    pub fn open(directory: &Path, bug: Option<Bug>) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let path = directory.join(FILE);
        if !path.exists() {
            create(directory, &path)?;
        }
        let database = Database::builder().set_cache_size(CACHE_BYTES).open(path)?;
        Ok(Self {
            database,
            staged: Staged::default(),
            bug,
        })
    }

    /// The staged value of a key, or else the committed one.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(staged) = self.staged.rows.get(key) {
            return Ok(staged.clone());
        }
        let table = self.database.begin_read()?.open_table(ENTRIES)?;
        Ok(table.get(key)?.map(|value| value.value().to_vec()))
    }

    /// Stage a value, or a deletion.
    pub fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.staged.num_bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.staged.rows.insert(key, value);
    }

    /// Commit what is staged together with offsets: `None` forgets one, and no offset at all
    /// forgets every one.
    pub fn commit(&mut self, offsets: &[(Partition, Option<i64>)]) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        write_offsets(&transaction, offsets)?;
        if self.bug == Some(Bug::OffsetsFirst) {
            transaction.commit()?;
            transaction = self.database.begin_write()?;
        }
        write_entries(&transaction, &self.staged)?;
        transaction.commit()?;
        self.staged = Staged::default();
        Ok(())
    }

    /// The offset of the last commit that named a partition.
    pub fn committed_offset(&self, partition: &Partition) -> Result<Option<i64>> {
        let table = self.database.begin_read()?.open_table(OFFSETS)?;
        let key = (partition.topic.as_str(), partition.number);
        Ok(table.get(key)?.map(|offset| offset.value()))
    }

    /// The entries between two keys as they are now: the staged ones over the committed ones.
    pub fn scan(&self, low: Bound<&[u8]>, high: Bound<&[u8]>, reverse: bool) -> Result<Scan> {
        if holds_nothing(low, high) {
            return Ok(Scan::empty());
        }
        let staged = self.staged.rows.range::<[u8], _>((low, high));
        let staged = staged.map(|(key, value)| (key.clone(), value.clone()));
        let table = self.database.begin_read()?.open_table(ENTRIES)?;
        let committed = table.range_owned::<&[u8]>((low, high))?;
        Ok(Scan::new(staged.collect(), committed, reverse))
    }

    /// How many entries are committed.
    pub fn num_entries(&self) -> Result<u64> {
        let table = self.database.begin_read()?.open_table(ENTRIES)?;
        Ok(table.len()?)
    }

    /// How many keys wait for their commit.
    pub fn num_uncommitted_entries(&self) -> usize {
        self.staged.rows.len()
    }

    /// How many bytes of keys and values were staged since the last commit.
    pub fn num_uncommitted_bytes(&self) -> usize {
        self.staged.num_bytes
    }
}

/// Make the database elsewhere, and rename it once it is whole: redb refuses a file whose making
/// was interrupted.
fn create(directory: &Path, path: &Path) -> Result<()> {
    let unfinished = directory.join(UNFINISHED_FILE);
    if unfinished.exists() {
        fs::remove_file(&unfinished)?;
    }
    let database = Database::create(&unfinished)?;
    let transaction = database.begin_write()?;
    // A reader needs the tables to be there.
    transaction.open_table(ENTRIES)?;
    transaction.open_table(OFFSETS)?;
    transaction.commit()?;
    drop(database);
    fs::rename(unfinished, path)?;
    sync_names(directory)
}

fn write_entries(transaction: &WriteTransaction, staged: &Staged) -> Result<()> {
    let mut table = transaction.open_table(ENTRIES)?;
    for (key, value) in &staged.rows {
        match value {
            Some(value) => table.insert(key.as_slice(), value.as_slice())?,
            None => table.remove(key.as_slice())?,
        };
    }
    Ok(())
}

fn write_offsets(
    transaction: &WriteTransaction,
    offsets: &[(Partition, Option<i64>)],
) -> Result<()> {
    let mut table = transaction.open_table(OFFSETS)?;
    if offsets.is_empty() {
        table.retain(|_, _| false)?;
    }
    for (partition, offset) in offsets {
        let key = (partition.topic.as_str(), partition.number);
        match offset {
            Some(offset) => table.insert(key, offset)?,
            None => table.remove(key)?,
        };
    }
    Ok(())
}

/// Make the name of the file durable, and that of its directory; redb syncs the content only.
fn sync_names(directory: &Path) -> Result<()> {
    File::open(directory)?.sync_all()?;
    if let Some(parent) = directory.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Whether no key can be between two bounds; a sorted map does not like to be asked then.
fn holds_nothing(low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Included(high) | Bound::Excluded(high),
        ) => low >= high,
    }
}
