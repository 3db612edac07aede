//! The rank of this process, as set by its launcher in the environment.
//!
//! | launcher | rank | ranks |
//! |---|---|---|
//! | torchrun | `RANK` | `WORLD_SIZE` |
//! | OpenMPI | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` |
//! | MPICH, Intel MPI | `PMI_RANK` | `PMI_SIZE` |
//! | Slurm | `SLURM_PROCID` | `SLURM_NTASKS` |
//!
//! The first launcher in the table with a variable set is used. Slurm is last because the others run
//! under it: Slurm may have started one torchrun per node, and it sets `SLURM_PROCID` to 0 in the batch
//! script itself. A script that Slurm runs directly, with more than one task and without `srun`, must
//! therefore not call [`Ranks::from_env`].

use super::{Ranks, Uneven};
use crate::error::{Error, fail};

/// The variables of a launcher: rank and number of ranks.
type Pair = (&'static str, &'static str);

const LAUNCHERS: [Pair; 4] = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

impl Ranks {
    /// Returns the rank that torchrun, OpenMPI, MPICH or Slurm set for this process, with
    /// [`Uneven::Pad`]; `None` if none of them started it. If several did, the first in this order is
    /// used.
    ///
    /// # Errors
    ///
    /// If a variable is set and its counterpart is not, if a value is not a number, or if the rank is
    /// not below the number of ranks. The error names the variable.
    pub fn from_env() -> Result<Option<Self>, Error> {
        // A value that is not Unicode is not a number either: the lossy text is only shown in the error.
        Self::from_variables(|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    /// Returns the names of all variables that [`from_env`](Self::from_env) reads.
    #[doc(hidden)]
    pub fn variables() -> impl Iterator<Item = &'static str> {
        LAUNCHERS.into_iter().flat_map(|(rank, world)| [rank, world])
    }

    /// Does the same as [`from_env`](Self::from_env), with variables looked up by `lookup`.
    ///
    /// # Errors
    ///
    /// See [`from_env`](Self::from_env).
    pub(crate) fn from_variables(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Error> {
        for pair in LAUNCHERS {
            if let Some(ranks) = of_launcher(pair, &lookup)? {
                return Ok(Some(ranks));
            }
        }
        Ok(None)
    }
}

fn of_launcher(
    (rank_variable, world_variable): Pair,
    lookup: &impl Fn(&str) -> Option<String>,
) -> Result<Option<Ranks>, Error> {
    let (rank, world) = match (lookup(rank_variable), lookup(world_variable)) {
        (None, None) => return Ok(None),
        (Some(rank), Some(world)) => {
            (number(rank_variable, &rank)?, number(world_variable, &world)?)
        }
        (Some(_), None) => {
            return Err(fail!(
                Parameter,
                "{rank_variable} is set and {world_variable} is not: set both, or neither"
            ));
        }
        (None, Some(_)) => {
            return Err(fail!(
                Parameter,
                "{world_variable} is set and {rank_variable} is not: set both, or neither"
            ));
        }
    };
    Ranks::new(rank, world, Uneven::Pad).map(Some).map_err(|_| {
        fail!(
            Parameter,
            "{rank_variable} is {rank} and {world_variable} is {world}: the rank must be below"
        )
    })
}

fn number(variable: &'static str, value: &str) -> Result<u32, Error> {
    let parsed = value.trim().parse();
    parsed.map_err(|_| {
        fail!(Parameter, "{variable} is {value:?}: expected a whole number below 2^32")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(variables: &[(&str, &str)]) -> Result<Option<(u32, u32)>, String> {
        let lookup = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let found = Ranks::from_variables(lookup).map_err(|error| error.to_string())?;
        Ok(found.map(|ranks| (ranks.rank(), ranks.world_size())))
    }

    #[test]
    fn each_launcher_is_understood() {
        for (rank, world) in LAUNCHERS {
            assert_eq!(ranks(&[(rank, "3"), (world, "8")]), Ok(Some((3, 8))), "{rank}");
        }
        assert_eq!(ranks(&[]), Ok(None));
    }

    #[test]
    fn who_runs_under_slurm_is_believed_before_it() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        assert_eq!(ranks(&slurm), Ok(Some((1, 2))));
        let both = [slurm[0], slurm[1], ("RANK", "9"), ("WORLD_SIZE", "16")];
        assert_eq!(ranks(&both), Ok(Some((9, 16))));
    }

    #[test]
    fn half_a_pair_names_the_other_half() {
        let said = ranks(&[("RANK", "3")]).unwrap_err();
        assert_eq!(said, "RANK is set and WORLD_SIZE is not: set both, or neither");
        let said = ranks(&[("PMI_SIZE", "3")]).unwrap_err();
        assert_eq!(said, "PMI_SIZE is set and PMI_RANK is not: set both, or neither");
        assert!(ranks(&[("RANK", "3"), ("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")]).is_err());
    }

    #[test]
    fn what_is_no_number_is_named() {
        for value in ["", "-1", "two", "4294967296", "1.0", "\u{fffd}"] {
            let said = ranks(&[("RANK", value), ("WORLD_SIZE", "2")]).unwrap_err();
            assert!(said.starts_with(&format!("RANK is {value:?}")), "{said}");
        }
    }

    #[test]
    fn a_rank_beyond_its_world_is_named() {
        let said = ranks(&[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "2")]).unwrap_err();
        assert_eq!(said, "SLURM_PROCID is 2 and SLURM_NTASKS is 2: the rank must be below");
        assert!(ranks(&[("RANK", "0"), ("WORLD_SIZE", "0")]).is_err());
    }
}
