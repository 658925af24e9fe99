//! The command line of `ring-report`.

use std::path::PathBuf;

use crate::bars;
use crate::cells::{Cell, Topic};

/// Rounds of a whole run: more than the 31 that a good median needs, since the machine may spend some in another state.
const ROUNDS: usize = 45;
const QUICK_ROUNDS: usize = 7;

pub(crate) const HELP: &str = "\
ring-report: measures the ring against its peers

  --rounds N       samples of each candidate in each cell (45)
  --quick          7 rounds
  --only a,b       only what these need: bars as R2 or T1, or one-by-one, batches, round-trip, completion,
                   three-stage, single, choices, choices-round-trip, word
  --cell TEXT      only cells whose name has this text, as `32 B, capacity 64`
  --output DIR     write bench-ring.md and the charts there; without it the report is printed
  --help           print this text
";

/// One call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    /// Names of bars and topics; empty for all.
    pub(crate) only: Vec<String>,
    /// Text in the names of cells.
    pub(crate) cell: Option<String>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) help: bool,
}

impl Options {
    /// # Errors
    /// Something is not understood.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: ROUNDS,
            only: Vec::new(),
            cell: None,
            output: None,
            help: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (flag, attached) = match argument.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let mut value = || {
                attached
                    .clone()
                    .or_else(|| arguments.next())
                    .ok_or_else(|| format!("`{flag}` needs a value"))
            };
            match flag {
                "--rounds" => options.rounds = rounds(&value()?)?,
                "--only" => options.only = names(&value()?)?,
                "--cell" => options.cell = Some(value()?),
                "--output" => options.output = Some(PathBuf::from(value()?)),
                "--quick" => options.rounds = QUICK_ROUNDS,
                "--help" | "-h" => options.help = true,
                _ => return Err(format!("`{argument}` is not understood")),
            }
        }
        Ok(options)
    }

    /// Whether the cell is asked for.
    pub(crate) fn wants(&self, cell: &Cell) -> bool {
        let name = cell.key.to_string();
        if self.cell.as_ref().is_some_and(|text| !name.contains(text)) {
            return false;
        }
        self.only.is_empty()
            || self
                .only
                .iter()
                .any(|name| cell.key.topic.name() == name || bars::needs(name, cell.key))
    }
}

pub(crate) fn rounds(value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(rounds) if rounds > 0 => Ok(rounds),
        _ => Err(format!("`{value}` is not a number of rounds")),
    }
}

fn names(list: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    for name in &names {
        let is_topic = Topic::ALL.iter().any(|topic| topic.name() == name);
        if !is_topic && !bars::is_bar(name) {
            return Err(format!("no bar and no group of cells is called `{name}`"));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    fn wanted(line: &str) -> Vec<String> {
        let options = parsed(line).expect("is understood");
        let cells = cells::all();
        let wanted = cells.iter().filter(|cell| options.wants(cell));
        wanted.map(|cell| cell.key.to_string()).collect()
    }

    #[test]
    fn all_cells_are_wanted_by_default() {
        assert_eq!(wanted("").len(), cells::all().len());
        assert_eq!(parsed("").expect("default").rounds, ROUNDS);
        assert_eq!(parsed("--quick").expect("quick").rounds, QUICK_ROUNDS);
    }

    #[test]
    fn a_bar_wants_its_cells() {
        assert_eq!(wanted("--only R2"), ["one-by-one, 32 B, capacity 64"]);
        assert_eq!(
            wanted("--only=R6,T2"),
            [
                "one-by-one, 32 B, capacity 1000",
                "one-by-one, 32 B, capacity 1024",
                "completion, 32 B, capacity 64",
                "word, 8 B, capacity 1"
            ]
        );
    }

    #[test]
    fn topics_and_texts_select_too() {
        assert_eq!(wanted("--only batches").len(), 6);
        let mut cell = parsed("").expect("default");
        cell.cell = Some("8 B, capacity 1000".to_owned());
        let cells = cells::all();
        assert_eq!(cells.iter().filter(|other| cell.wants(other)).count(), 2);
    }

    #[test]
    fn a_misspelt_call_is_refused() {
        for line in ["--only R77", "--only", "--rounds 0", "--rounds x", "R2"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
