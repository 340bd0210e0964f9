"""Bytes of exported libraries from the kernels that they keep: `python3 benchmarks/exported/drawn.py` after
`bazel build //benchmarks:drawn_nets`.

A seed draws ten nets (drawn_nets.cc). Each is built twice, for evaluation alone and with its training step, into the
program of measure.py. Symbols tell which source each byte comes from, and so which family of kernels: the folder of
the op. A family's number is its mean over the nets that keep it, of evaluations and of trainings apart. What is left
(the runtime, tables, names and what unwinds) follows by least squares:

    bytes = base + a * kernels of the plans + b * sum of the families

Each net is also told from the nine others, if they have its families.
"""

import argparse
import pathlib
import re
import statistics
import sys
import tempfile
from dataclasses import dataclass

import measure

NETS = 10
# Sources that ops share, by how their names begin.
SHARED = {
    "ops/cpu/isa/gemm": "matmul",
    "ops/cpu/isa/rows": "functions",
    "ops/cpu/row_norms": "layer_norm",
    "ops/cpu/fold": "reduce",
}
# Of symbols of kernels that the compiler counts to a header which all share: words of their names.
NAMED = {
    "convolution": r"Convolution|[Ww]inograd",
    "matmul": r"[Gg]emm|Packed",
    "pool": r"Pool|HalvesForward|HalvesBackward",
    "batch_norm": r"BatchNorm|over_channels",
    "layer_norm": r"LayerNorm|NormForward|NormBackward",
    "cast": r"::cast<",
    "reduce": r"Reduc",
    "recurrent": r"Recurrent",
    "attention": r"Attention",
    "softmax": r"Softmax",
    "embedding": r"Embedding",
    "structural": r"::fill<",
}


@dataclass
class Library:
    net: int
    trains: bool
    size: int  # bytes of the program, stripped, without the numbers that the library begins with
    kernels: int  # of all plans
    families: dict[str, int]  # bytes by family


def family_of_source(source):
    """The family of a source below a library's kernels/; None if it is of none."""
    for beginning, family in SHARED.items():
        if source.startswith(beginning):
            return family
    found = re.match(r"ops/(\w+)/", source)
    return found[1] if found and found[1] not in ("cpu", "expr", "rules", "tables") else None


def families_of(lines):
    """Bytes by family, of the lines of nm -S -l -C."""
    found, others = {}, []
    for line in lines.splitlines():
        symbol, _, source = line.partition("\t")
        match = re.match(r"[0-9a-f]+ ([0-9a-f]+) [^bB] (.*)", symbol)
        if match is None:
            continue
        family, size = family_of_source(source.split("/kernels/")[-1]), int(match[1], 16)
        if family:
            found[family] = found.get(family, 0) + size
        else:
            others.append((match[2], size))
    for name, size in others:
        family = next((family for family, words in NAMED.items() if re.search(words, name)), None)
        if family in found:
            found[family] += size
    return found


def measured(folder, net, trains, place):
    library = folder / str(net) / ("train" if trains else "evaluate")
    program = measure.build(library, trains, place, flags="-g")
    families = families_of(measure.run("nm", "-S", "-l", "-C", program))
    measure.run("strip", program)
    kernels = re.search(r"KernelRow kKernels\[\] = \{\n(.*?)\n\};", (library / "net.cc").read_text(), re.S)[1]
    return Library(
        net,
        trains,
        program.stat().st_size - measure.numbers_of(library),
        len(kernels.splitlines()),
        families,
    )


def least_squares(rows, values):
    """The factors of the columns with which rows come closest to the values: normal equations, by elimination."""
    count = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(count)] + [sum(row[i] * value for row, value in zip(rows, values, strict=True))]
        for i in range(count)
    ]
    for i in range(count):
        matrix[i] = [each / matrix[i][i] for each in matrix[i]]
        for j in range(count):
            if j != i:
                matrix[j] = [each - matrix[j][i] * own for each, own in zip(matrix[j], matrix[i], strict=True)]
    return [row[-1] for row in matrix]


class Formula:
    def __init__(self, libraries):
        found = {}
        for of in libraries:
            for family, size in of.families.items():
                found.setdefault((family, of.trains), []).append(size)
        self.families = {key: statistics.mean(sizes) for key, sizes in found.items()}
        left = [of.size - sum(of.families.values()) for of in libraries]
        self.factors = least_squares([self.row(of) for of in libraries], left)

    def of_families(self, of):
        return sum(self.families[family, of.trains] for family in of.families)

    def row(self, of):
        return [1, of.kernels, self.of_families(of)]

    def tell(self, of):
        """The bytes of a library that it knows."""
        return self.of_families(of) + sum(factor * each for factor, each in zip(self.factors, self.row(of), strict=True))

    def knows(self, of):
        return all((family, of.trains) in self.families for family in of.families)


def print_table(libraries):
    formula = Formula(libraries)
    print(f"{'':16}{'kB':>8}{'formula':>9}{'of the others':>15}")
    errors, others_errors = [], []
    for of in libraries:
        errors.append(formula.tell(of) / of.size - 1)
        told = f"{of.size / 1e3:8.1f}{formula.tell(of) / 1e3:9.1f}"
        others = Formula([each for each in libraries if each.net != of.net])
        if others.knows(of):
            others_errors.append(others.tell(of) / of.size - 1)
            told += f"{others.tell(of) / 1e3:15.1f}"
        print(f"{of.net} {'with training' if of.trains else 'evaluation':14}{told}")
    print(f"largest error {100 * max(map(abs, errors)):.1f} %; of what the nine others tell {100 * max(map(abs, others_errors)):.1f} %")
    base, kernel, more = formula.factors
    print(f"\nkB = {base / 1e3:.1f} + {kernel / 1e3:.3f} kernels + {1 + more:.3f} times its families, each in kB:")
    print(f"{'':20}{'evaluation':>12}{'with training':>15}")
    names = sorted({family for family, _ in formula.families}, key=lambda name: -formula.families.get((name, True), 0))
    for name in names:
        numbers = [formula.families.get((name, trains)) for trains in (False, True)]
        print(f"{name:20}" + "".join(" " * width if size is None else f"{size / 1e3:{width}.1f}" for size, width in zip(numbers, (12, 15), strict=True)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        nets = pathlib.Path(folder)
        print(measure.run(measure.ROOT / "bazel-bin/benchmarks/drawn_nets", nets, arguments.seed, NETS))
        libraries = []
        for net in range(NETS):
            for trains in (False, True):
                place = nets / f"{net}-{trains}"
                place.mkdir()
                libraries.append(measured(nets, net, trains, place))
    print_table(libraries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
