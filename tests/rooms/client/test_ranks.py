"""Which rank of which job a process is, by the environment that launchers set."""

import pytest

from vedette.client import ranks
from vedette.ids import looks_like_run

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
    "PMIX_NAMESPACE": "prterun-node1-30041@1", "PMIX_RANK": "1",
}  # fmt: skip
SRUN = {
    "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8",
    "SLURM_CLUSTER_NAME": "hpc",
}  # fmt: skip
MPICH = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "2", "MPI_LOCALNRANKS": "4"}


@pytest.mark.parametrize(
    ("environ", "number", "size", "attempt"),
    [
        (TORCHRUN, 3, 4, "1"),
        (TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "2"}, 3, 4, "3"),
        (TORCHRUN | SRUN, 3, 4, "1"),
        (OPEN_MPI, 1, 3, "1"),
        (OPEN_MPI | SRUN, 1, 3, "1"),
        (SRUN, 5, 8, "1"),
        (SRUN | {"SLURM_RESTART_COUNT": "1"}, 5, 8, "2"),
        (MPICH, 2, 4, "1"),
        (MPICH | SRUN | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, 2, 4, "1"),
        (MPICH | SRUN | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, 2, 4, "1"),
        (SRUN | {"PMI_RANK": "5", "PMI_SIZE": "8"}, 5, 8, "1"),
    ],
)
def test_a_rank_is_told(environ, number, size, attempt):
    """Each launcher's variables tell rank, size and try; the innermost launcher counts."""
    rank = ranks.find(environ)

    assert rank is not None
    assert (rank.number, rank.size, rank.attempt) == (number, size, attempt)
    assert looks_like_run(rank.run_id("", 0))


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "4"},
        OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
        SRUN | {"SLURM_STEP_NUM_TASKS": "1"},
        {name: value for name, value in SRUN.items() if name != "SLURM_STEP_ID"},
        SRUN | {"SLURM_PROCID": "x"},
        MPICH | {"PMI_RANK": "-1"},
    ],
)
def test_no_rank(environ):
    """A process alone, a batch script outside of a step, and variables that make no sense are no ranks."""
    assert ranks.find(environ) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (SRUN, SRUN | {"SLURM_PROCID": "0"}, True),
        (SRUN, SRUN | {"SLURM_STEP_ID": "1"}, False),
        (SRUN, SRUN | {"SLURM_JOB_ID": "78"}, False),
        (OPEN_MPI, OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "0"}, True),
        (
            OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "6"},
            OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "6", "PMIX_NAMESPACE": "b"},
            False,
        ),
        (TORCHRUN, TORCHRUN | {"RANK": "0", "TORCHELASTIC_RESTART_COUNT": "1"}, True),
        (
            TORCHRUN | {"WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "a"},
            TORCHRUN | {"WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "b"},
            False,
        ),
    ],
)
def test_the_ranks_of_a_job_have_one_run(one, other, same):
    """Ranks of one job derive the same id, those of two jobs different ones; the second run of a job is another."""
    first, second = ranks.find(one), ranks.find(other)

    assert (first.run_id("", 0) == second.run_id("", 0)) is same
    assert first.run_id("", 0) != first.run_id("", 1)


@pytest.mark.parametrize(
    "environ",
    [
        OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "9" * 23, "OMPI_COMM_WORLD_SIZE": "9" * 24},
        OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "9"},
        OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "0"},
        MPICH | {"PMI_SIZE": "-5"},
        TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "-9"},
        TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": str(1 << 64)},
    ],
)
def test_numbers_that_make_no_sense(environ):
    """Ranks, sizes and restarts that cannot be are no ranks, rather than a run that cannot be recorded."""
    assert ranks.find(environ) is None


def test_a_job_whose_name_is_no_text():
    """Bytes that are not UTF-8 tell jobs apart as others do."""
    here = OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "6"}
    one, other = (ranks.find(here | {"PMIX_NAMESPACE": name}) for name in ("\udcff", "\udcfe"))

    assert one.run_id("", 0) != other.run_id("", 0)


def test_runs_of_other_names_are_others():
    """What rank 0 alone begins under a name of its own is not the run that all begin next."""
    rank = ranks.find(SRUN)

    assert rank.run_id("eval", 0) != rank.run_id("train", 0)


def test_ranks_that_lightning_starts():
    """They are ranks of the run that they join, and of no other: nothing tells such a job from the next one."""
    environ = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "NODE_RANK": "0", "LOCAL_RANK": "1", "WORLD_SIZE": "2",
    }  # fmt: skip

    assert ranks.find(environ) is None
    assert ranks.find(environ, joins=True)[:2] == (1, 2)
    assert ranks.find(environ | {"NODE_RANK": "1"}, joins=True) is None
