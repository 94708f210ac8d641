"""The environment variables that are recorded: an allow-list of those that can change results."""

import os
from collections.abc import Mapping

from vedette import masks

_FAMILIES = tuple(
    "CUDA_ NCCL_ SLURM_ OMP_ MKL_ OPENBLAS_ NUMEXPR_ KMP_ GOMP_ TORCH_ TORCHELASTIC_ PYTORCH_ XLA_ JAX_ HIP_ ROCR_ HSA_"
    " GLOO_ UCX_ OMPI_COMM_ PMI_ PBS_ LSB_ CUBLAS_ CUDNN_ TRITON_ HYDRA_ TF_CPP_ TF_GPU_ TF_XLA_ TF_ENABLE_ TF_FORCE_"
    " TF_NUM_ TF_CUDNN_".split()
)
_NAMES = frozenset(
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT PYTHONHASHSEED"
    " PYTHONOPTIMIZE PYTHONUNBUFFERED PYTHONDEVMODE TF_DETERMINISTIC_OPS TOKENIZERS_PARALLELISM HF_HOME HF_HUB_OFFLINE"
    " TRANSFORMERS_OFFLINE CONDA_DEFAULT_ENV VIRTUAL_ENV LANG LC_ALL TZ LD_LIBRARY_PATH LD_PRELOAD"
    " VECLIB_MAXIMUM_THREADS".split()
)
_MOST_NAMES = 500
_MOST_CHARS = 4096


def allowed(environ: Mapping[str, str] | None = None, more: str = "") -> dict[str, str]:
    """Return the variables to record, masked; `more`: further names with commas between them, `NAME*` for a prefix."""
    environ = os.environ if environ is None else environ
    wanted = [word.strip() for word in more.split(",") if word.strip()]
    families = (*_FAMILIES, *(word[:-1] for word in wanted if word.endswith("*")))
    names = _NAMES.union(wanted)
    chosen = {
        name: value[:_MOST_CHARS].encode(errors="replace").decode()
        for name, value in sorted(environ.items())
        if (name in names or name.startswith(families)) and "." not in name and name.isprintable()
    }
    return masks.environment(dict(list(chosen.items())[:_MOST_NAMES]))
