"""Which config keys, packages and variables can change a run's results, and which are noise, judged by their names.

Each table is a set of words; to extend it, add a word. `judge` asks the tables in order, and the first that knows a
key decides.
"""

import re
from typing import Any

from msgspec import Struct

LITTLE = 0.15  # a suspect with less weight is noise

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PATH = re.compile(r"^(?:~|\.{0,2}/|[a-z][a-z0-9+]*://|[A-Z]:\\)|/")
_STAMP = re.compile(r"^\d{4}-?\d\d-?\d\d(?:[T_ -]?\d\d[:_-]?\d\d.*)?$|^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$")

_SEED = {"seed", "seeds", "rng", "random state"}
_WRITES = set(
    "log logs logger logging print save saving checkpoint ckpt report display summary tensorboard wandb".split()
)
_HOW_OFTEN = set("every interval freq frequency period level dir path file to format n".split())
_OUTPUTS = set(
    "out output outputs outdir log logs logging save results result tmp temp scratch cache work workdir run "
    "runs exp experiment ckpt checkpoint checkpoints tensorboard wandb mlflow artifact artifacts plot plots "
    "figure export".split()
)
_PLACES = set("dir dirs directory path paths file files folder root prefix name uri url".split())
_INPUTS = set(
    "data dataset datasets train training val valid validation test eval input inputs corpus pretrained init "
    "load resume restore from weights vocab tokenizer split fold".split()
)
_ABOUT = {
    "name", "run name", "exp name", "experiment name", "job name", "experiment", "project", "group", "description",
    "notes", "note", "comment", "tag", "tags", "title", "author", "user", "username", "email", "entity", "id", "run id",
    "job id", "uuid", "version", "timestamp", "time", "date", "datetime", "start time", "started", "created", "now",
    "host", "hostname", "node", "pid", "port", "address", "master port", "master addr", "local rank", "verbose",
    "verbosity", "quiet", "debug", "progress", "progress bar", "silent", "color", "colour", "dry run", "notify",
    "output", "out", "outdir", "workdir", "cwd", "log", "logger", "loglevel", "logdir", "save", "savedir", "overwrite",
    "disable tqdm", "tqdm", "keep", "config", "config file", "config path", "home", "profile", "outputs",
    "save total limit",
}  # fmt: skip
_ABOUT_SECTIONS = set(
    "logging logger log wandb mlflow tensorboard hydra slurm launcher output outputs callbacks".split()
)
_SPEED = {
    "num workers", "workers", "n workers", "max workers", "num threads", "threads", "nthreads", "n jobs", "jobs",
    "num proc", "nproc", "processes", "prefetch", "prefetch factor", "pin memory", "persistent workers", "cache size",
    "buffer size", "chunk size", "loader workers", "dataloader num workers", "preprocessing num workers",
}  # fmt: skip
_LENGTH = set("epochs epoch steps iterations iters iter rounds episodes duration".split())
_LATER = set("warmup schedule scheduler milestones decay anneal annealing patience cooldown freeze unfreeze".split())
_DEVICE = set("device devices accelerator gpu gpus cuda".split())
_STRONG = set(
    "lr rate batch optimizer optim model arch architecture backbone network depth width hidden layers layer "
    "units heads dim embedding dropout momentum loss criterion objective dataset augment augmentation "
    "precision amp dtype fp16 bf16 gamma beta betas alpha lambda temperature clip eps epsilon tau sigma reg "
    "regularization l1 l2 kernel activation norm normalize init degree features size policy solver algorithm "
    "method noise deterministic".split()
)

NUMERIC = set(
    "numpy scipy torch torchvision torchaudio torchtext tensorflow tensorflow-cpu keras jax jaxlib flax optax "
    "haiku dm-haiku equinox scikit-learn pandas polars pyarrow xgboost lightgbm catboost transformers "
    "datasets tokenizers accelerate sentencepiece peft diffusers deepspeed flash-attn xformers bitsandbytes "
    "apex lightning pytorch-lightning triton cupy numba numexpr mkl openblas intel-openmp statsmodels einops "
    "timm onnx onnxruntime onnxruntime-gpu opencv-python opencv-python-headless pillow albumentations kornia "
    "gymnasium gym stable-baselines3 mujoco sympy networkx dask ray theano mxnet paddlepaddle spacy gensim "
    "nltk librosa soundfile h5py zarr xarray pymc arviz tensorflow-probability torch-geometric dgl botorch "
    "gpytorch".split()
)
_TOOLS = set(
    "pip setuptools wheel vedette pytest ruff black mypy isort flake8 pylint pre-commit coverage tox nox "
    "hatch hatchling build twine sphinx mkdocs ipython jupyter jupyterlab notebook ipykernel rich textual "
    "tqdm colorama argcomplete hypothesis import-linter virtualenv pipx uv poetry certifi urllib3 requests "
    "idna charset-normalizer".split()
)
IMPORT_NAMES = {"scikit-learn": "sklearn", "opencv-python": "cv2", "pillow": "PIL", "pyyaml": "yaml"}
_DETERMINISM = re.compile(
    r"^(?:PYTHONHASHSEED|CUBLAS_WORKSPACE_CONFIG|CUDA_VISIBLE_DEVICES|NVIDIA_TF32_OVERRIDE|TF_\w+|XLA_FLAGS|JAX_\w+|"
    r"TORCH\w*|PYTORCH\w*|NCCL_\w+|CUDA_LAUNCH_BLOCKING)$"
)
_THREADS = re.compile(r"^(?:OMP|MKL|OPENBLAS|NUMEXPR|BLIS|VECLIB|NUMBA)_\w+$")


class Rating(Struct, frozen=True):
    """What sort of key it is, and how likely a change of it alone changes the results."""

    sort: str  # seed, knob, later, length, input, device, speed, path, noise
    weight: float


SEED_WEIGHT = 0.7
KNOB, UNKNOWN, NOISE = 0.95, 0.85, 0.05


def words(key: str) -> list[str]:
    """Return the words of a name: `initLR_max` has init, lr, max."""
    return [word.lower() for word in _WORD.findall(key)]


def judge(key: str, a: Any, b: Any) -> Rating:
    """Judge a config key by its name and by its two values."""
    *path, leaf = key.split(".")
    own = words(leaf)
    phrase, known = " ".join(own), set(own)
    above = {word for part in path for word in words(part)}
    if known & _SEED or phrase in _SEED or phrase.endswith("random state"):
        return Rating("seed", SEED_WEIGHT)
    if phrase in _SPEED:
        return Rating("speed", 0.1)
    if _is_about(phrase, own, above):
        return Rating("noise", NOISE)
    texts = [value for value in (a, b) if isinstance(value, str) and value]
    if texts and all(_STAMP.match(text) for text in texts):
        return Rating("noise", NOISE)
    if (known & _PLACES and "name" not in known) or (texts and all(_PATH.search(text) for text in texts)):
        return _judge_place(known | above, texts)
    if known & _LATER:
        return Rating("later", KNOB - 0.01)
    if known & _LENGTH:
        return Rating("length", UNKNOWN - 0.01)
    if known & _DEVICE:
        return Rating("device", 0.62)
    if known & _STRONG or above & _STRONG:
        return Rating("knob", KNOB)
    return Rating("knob", UNKNOWN)


def _is_about(phrase: str, own: list[str], above: set[str]) -> bool:
    """Tell whether a key sets a run's name, where it writes, or how much it logs."""
    if phrase == "name":
        return not above or bool(above & (_ABOUT_SECTIONS | {"run", "experiment", "project"}))
    if phrase in _ABOUT or above & _ABOUT_SECTIONS:
        return True
    return bool(own) and own[0] in _WRITES and (own[-1] in _HOW_OFTEN or set(own[1:]) & (_HOW_OFTEN | _LENGTH) != set())


def _judge_place(known: set[str], texts: list[str]) -> Rating:
    if known & _INPUTS and not known & {"log", "logs", "out", "output", "save", "results"}:
        return Rating("input", 0.6)
    if known & _OUTPUTS:
        return Rating("noise", NOISE)
    ends = {text.rstrip("/").rpartition("/")[2] for text in texts}
    return Rating("path", 0.1 if len(texts) == 2 and len(ends) == 1 else 0.3)


def judge_package(name: str, a: str | None, b: str | None, imports: set[str]) -> float:
    """Weigh a package whose versions differ; `imports`: modules that the code imports, empty when not known."""
    plain = name.lower().replace("_", "-")
    used = IMPORT_NAMES.get(plain, plain.replace("-", "_")) in imports
    if plain in NUMERIC or plain.startswith("nvidia-"):
        small = a is not None and b is not None and a.split(".")[:2] == b.split(".")[:2]
        return (0.58 if small else 0.65) + (0.02 if used else 0.0)
    if plain in _TOOLS:
        return 0.02
    return 0.5 if used else 0.12


def judge_variable(name: str) -> float:
    """Weigh an environment variable whose values differ."""
    return 0.45 if _DETERMINISM.match(name) else 0.3 if _THREADS.match(name) else 0.08
