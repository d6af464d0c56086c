//! Whether a table of replacements can be used.
//!
//! SentencePiece stores them as a trie in a double array and the replacements behind it. The
//! library follows the trie without looking where it leads: a damaged table makes it panic while
//! it encodes, or ask for gigabytes.

/// The rules of NFKC take a quarter of a megabyte.
const MAX_BYTES: usize = 4 << 20;
/// Nodes lie in blocks of so many units.
const BLOCK: usize = 256;

/// Checks that no text can lead out of the table.
pub(super) fn check(table: &[u8]) -> Result<(), String> {
    if table.len() > MAX_BYTES {
        return Err(format!(
            "its table of replacements has {} bytes",
            table.len()
        ));
    }
    let damaged = || "its table of replacements is damaged".to_owned();
    let (length, rest) = table.split_first_chunk::<4>().ok_or_else(damaged)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| damaged())?;
    let (trie, replacements) = rest.split_at_checked(length).ok_or_else(damaged)?;
    let replacements = std::str::from_utf8(replacements).map_err(|_| damaged())?;
    let (units, []) = trie.as_chunks::<4>() else {
        return Err(damaged());
    };
    let units: Vec<u32> = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
    if is_closed(&units, replacements) {
        Ok(())
    } else {
        Err(damaged())
    }
}

/// Whether every node that a text can reach has all places of its children in the array, and every
/// replacement begins in the text of replacements.
fn is_closed(units: &[u32], replacements: &str) -> bool {
    let Some(&root) = units.first() else {
        return false;
    };
    let mut seen = vec![false; units.len()];
    let mut open = vec![offset(root)];
    while let Some(node) = open.pop() {
        if node | (BLOCK - 1) >= units.len() {
            return false;
        }
        if std::mem::replace(&mut seen[node], true) {
            continue;
        }
        for byte in 1..BLOCK {
            let place = node ^ byte;
            let unit = units[place];
            if unit & (1 << 31 | 0xff) != byte as u32 {
                continue;
            }
            let child = place ^ offset(unit);
            if has_leaf(unit) {
                let leaf = units.get(child).map(|leaf| (leaf & !(1 << 31)) as usize);
                if !leaf.is_some_and(|start| replacements.is_char_boundary(start)) {
                    return false;
                }
            }
            open.push(child);
        }
    }
    true
}

fn has_leaf(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

fn offset(unit: u32) -> usize {
    (unit as usize >> 10) << ((unit & 1 << 9) >> 6)
}
