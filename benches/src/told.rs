//! `programs/files`, and what its runs tell.

use std::path::Path;

use svmio_tests::{Mpi, Program};

/// The program, compiled for an MPI.
pub fn program(mpi: Mpi) -> Program {
    Program::c_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/files"), mpi)
}

/// What a run told: names and numbers.
#[derive(Debug)]
pub struct Told {
    numbers: Vec<(String, f64)>,
    title: String,
}

impl Told {
    /// What a run of that title wrote.
    pub fn parse(title: String, output: &str) -> Told {
        Told { numbers: output.lines().filter_map(parsed).collect(), title }
    }

    /// The run.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The number of that name.
    ///
    /// # Panics
    /// Where there is none.
    pub fn get(&self, name: &str) -> f64 {
        self.all(name).next().unwrap_or_else(|| panic!("{}: no {name} in {:?}", self.title, self.numbers))
    }

    /// All numbers of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = f64> + 'a {
        self.numbers.iter().filter(move |(found, _)| found == name).map(|(_, number)| *number)
    }

    /// How many words were read that had not been written.
    pub fn wrong(&self) -> f64 {
        self.all("wrong").sum()
    }
}

/// `NAME NUMBER`, whatever follows.
fn parsed(line: &str) -> Option<(String, f64)> {
    let mut words = line.split_whitespace();
    let (name, number) = (words.next()?, words.next()?);
    Some((name.to_owned(), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Told, parsed};

    #[test]
    fn what_is_no_number_of_a_name_is_not_taken_for_one() {
        assert_eq!(parsed("write 0.5"), Some(("write".to_owned(), 0.5)));
        assert_eq!(parsed("write 0.5 s 100.0 MB/s"), Some(("write".to_owned(), 0.5)));
        assert_eq!(parsed("a warning of the MPI"), None);
    }

    #[test]
    fn numbers_are_found_by_their_names() {
        let told = Told::parse("run".to_owned(), "with 1\nwithout 2\nwith 3\nwrong 0\nwrong 4\n");
        assert_eq!(told.all("with").collect::<Vec<_>>(), [1.0, 3.0]);
        assert_eq!(told.get("without"), 2.0);
        assert_eq!(told.wrong(), 4.0);
    }
}
