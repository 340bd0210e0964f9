"""The ops of torch.testing that `--samples` leaves out: each rule is a list of names, and a reason.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Rule:
    """A name may be a pattern, as "sparse.*"."""

    name: str
    reason: str
    ops: tuple[str, ...]

    def leaves_out(self, op: str) -> bool:
        return any(fnmatchcase(op, name) for name in self.ops)


RANDOM = Rule(
    "random draws",
    "two libraries draw different numbers",
    (
        *("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial"),
        *("normal", "normal.*", "uniform", "rand_like", "randn", "randn_like", "randint"),
        *("randint_like", "nn.functional.alpha_dropout", "nn.functional.dropout"),
        *("nn.functional.dropout2d", "nn.functional.dropout3d"),
        *("nn.functional.feature_alpha_dropout.with_train", "nn.functional.rrelu"),
        "nn.functional.fractional_max_pool*",
    ),
)
COMPLEX = Rule(
    "complex numbers",
    "Metronome has no complex numbers",
    (
        *("cdouble", "cfloat", "chalf", "complex", "imag", "istft", "nn.functional.silu.complex"),
        *("polar", "stft", "view_as_complex", "view_as_real", "fft.fft", "fft.fft2", "fft.fftn"),
        *("fft.hfft*", "fft.ifft", "fft.ifft2", "fft.ifftn", "fft.ihfft*", "fft.irfft*"),
        "fft.rfft*",
    ),
)
SPARSE = Rule("sparse tensors", "Metronome has no sparse tensors", ("sparse.*", "to_sparse"))
LINEAR_ALGEBRA = Rule(
    "linear algebra",
    "Metronome has no factors and inverses of matrices",
    (
        *("cholesky*", "geqrf", "logdet", "lu", "lu_solve", "lu_unpack", "matrix_exp", "norm.nuc"),
        *("ormqr", "pca_lowrank", "pinverse", "qr", "svd", "svd_lowrank", "triangular_solve"),
        *("linalg.cholesky*", "linalg.cond", "linalg.det", "linalg.eig*", "linalg.householder*"),
        *("linalg.inv*", "linalg.ldl_*", "linalg.lstsq*", "linalg.lu*", "linalg.matrix_norm"),
        *("linalg.matrix_rank*", "linalg.pinv*", "linalg.qr", "linalg.slogdet", "linalg.solve*"),
        *("linalg.svd*", "linalg.tensorinv", "linalg.tensorsolve"),
    ),
)
NUMBERS = Rule(
    "sizes by numbers",
    "the sizes of results, or the calls that follow, depend on numbers",
    (
        *("allclose", "argwhere", "bincount", "combinations", "corrcoef", "cov", "equal", "item"),
        *("masked_select", "nanquantile", "nn.functional.ctc_loss"),
        *("nn.functional.gaussian_nll_loss", "nonzero", "quantile", "unique"),
        "unique_consecutive",
    ),
)
UNWRITTEN = Rule(
    "unwritten memory",
    "the numbers of results are whatever lay in memory",
    (
        *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty"),
        *("new_empty_strided", "resize_", "resize_as_"),
    ),
)
GPU = Rule(
    "a GPU",
    "PyTorch computes them on a GPU only",
    (
        *("jiterator_*", "nn.functional.batch_norm.without_cudnn", "torch._scaled_mm*"),
        *("torch.ops.aten._efficient_attention_forward", "torch.ops.aten._flash_attention_forward"),
    ),
)
RULES = (RANDOM, COMPLEX, SPARSE, LINEAR_ALGEBRA, NUMBERS, UNWRITTEN, GPU)


def rule_of(op: str) -> Rule | None:
    """The first rule that leaves an op out."""
    return next((rule for rule in RULES if rule.leaves_out(op)), None)
