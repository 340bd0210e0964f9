"""Makes the files of tests/import/programs: modules as torch.export.save writes them, and their numbers in f64.

    PYTHON tests/import/make_programs.py [--check] [NAME ...]

PYTHON is the path that `./metronome setup --python` prints: it has torch, NumPy and safetensors.
NAME.pt2 is the module in training form. NAME.safetensors holds what a C++ test compares, made in eager in f64:

    input.I             the tensor inputs as fed, f32 or i64, in the order of the signature
    output.I            the outputs, in the order of the signature, f64 if they are floating
    cotangent.I         f32, for each floating output
    gradient.NAME       of the loss: the sum over the floating outputs of (output * cotangent).sum()
    input_gradient.I    of the same loss
    after.NAME          the buffers of its state_dict after that one forward

Made with torch 2.11.0. --check writes no file: it compares the graphs with those of the committed files.
"""

import argparse
import copy
import json
import pathlib
import sys
import tempfile
import warnings
import zipfile
import zlib

import safetensors.torch
import torch
from modules import CASES
from refused import REFUSED, Open
from torch.export.pt2_archive._package import package_pt2
from torch.utils import _pytree

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
PACKAGES = pathlib.Path(torch.__file__).resolve().parents[1]


def tensors_of(tree):
    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def without_this_run(program):
    """The program without folders and addresses of objects, which differ from machine to machine."""
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes if isinstance(graph, torch.fx.GraphModule) else ():
            node.meta.pop("from_node", None)
            if trace := node.meta.get("stack_trace"):
                node.meta["stack_trace"] = trace.replace(f"{HERE}/", "").replace(f"{PACKAGES}/", "")
    return program


def save_program(case, module, positional, named, file):
    program = torch.export.export(module, positional, named, dynamic_shapes=case.dynamic)
    if case.decomposed:
        program = program.run_decompositions({})
    torch.export.save(without_this_run(program), file)


def expected_of(case, module, positional, named):
    """The numbers by name, of a copy of the module in f64."""
    inputs = tensors_of((positional, named))
    numbers = {f"input.{i}": tensor for i, tensor in enumerate(inputs)}
    if case.random:
        return numbers
    module = copy.deepcopy(module).double()

    def fed(tensor):
        return tensor.double().requires_grad_() if tensor.is_floating_point() else tensor.clone()

    positional, named = _pytree.tree_map_only(torch.Tensor, fed, (positional, named))
    outputs = _pytree.tree_leaves(module(*positional, **named))
    loss = 0
    for i, output in enumerate(outputs):
        numbers[f"output.{i}"] = output
        if output.is_floating_point():
            numbers[f"output.{i}"] = output.double()
            numbers[f"cotangent.{i}"] = torch.randn(output.shape)
            loss = loss + (output * numbers[f"cotangent.{i}"]).sum()
    loss.backward()
    for i, tensor in enumerate(tensors_of((positional, named))):
        if tensor.grad is not None:
            numbers[f"input_gradient.{i}"] = tensor.grad
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            numbers[f"gradient.{name}"] = parameter.grad
    return numbers | kept_buffers(module)


def kept_buffers(module):
    """Those that state_dict has, too."""
    kept = module.state_dict()
    return {f"after.{name}": buffer for name, buffer in module.named_buffers() if name in kept}


def require_same(name, case, file, positional, named, numbers):
    """The file, loaded again, computes the expected outputs and buffers in f32."""
    module = torch.export.load(file).module()
    outputs = _pytree.tree_leaves(module(*positional, **named))
    found = {f"output.{i}": output for i, output in enumerate(outputs)}
    found |= kept_buffers(module)
    for key, tensor in found.items() if not case.random else ():
        expected = numbers[key].to(tensor.dtype)
        torch.testing.assert_close(
            tensor, expected, rtol=case.tolerance, atol=case.tolerance, msg=lambda text: f"{name}, {key}: {text}"
        )


def make(name, folder):
    """Writes the two files of a case, and returns their paths."""
    case = CASES[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    module = case.module().train()
    positional, named = case.inputs(), case.named()
    fed = case.fed() if case.fed else positional
    numbers = expected_of(case, module, fed, named)
    program, expected = folder / f"{name}.pt2", folder / f"{name}.safetensors"
    save_program(case, module, positional, named, program)
    safetensors.torch.save_file({key: each.detach().clone().contiguous() for key, each in numbers.items()}, expected)
    require_same(name, case, program, fed, named, numbers)
    return program, expected


def exported_open():
    """A program of a size from 2 to 8 that two inputs have."""
    rows = torch.export.Dim("rows", min=2, max=8)
    return torch.export.export(Open(), (torch.ones(3, 3), torch.ones(3)), dynamic_shapes=({0: rows}, {0: rows}))


def make_several(folder):
    """The archives of several models."""
    torch.manual_seed(0)
    linears = {name: torch.nn.Linear(3, size) for name, size in {"act": 1, "judge": 2}.items()}
    refused = {name: module() for name, module in REFUSED.items()}
    for file, modules in {"several": linears, "refused": refused}.items():
        programs = {
            name: without_this_run(torch.export.export(module, (torch.ones(2, 3),)))
            for name, module in modules.items()
        }
        if file == "refused":
            programs["open"] = without_this_run(exported_open())
        package_pt2(folder / f"{file}.pt2", exported_programs=programs)


def graph_of(file):
    """The root graph of the file's model.json."""
    with zipfile.ZipFile(file) as archive:
        model = next(name for name in archive.namelist() if name.endswith("/models/model.json"))
        return json.loads(archive.read(model))["graph_module"]["graph"]


def targets_of(graph):
    """The targets of a graph's nodes in their order, and of the graphs that are arguments of them."""
    targets = []
    for node in graph["nodes"]:
        targets.append(node["target"])
        for each in node["inputs"]:
            if inner := each["arg"].get("as_graph"):
                targets += targets_of(inner["graph"])
    return targets


def short(target):
    return target.removeprefix("torch.ops.").removesuffix(".default")


def check(names):
    """Says which committed graphs have other targets, and returns their number."""
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            program, _ = make(name, pathlib.Path(folder))
            committed = PROGRAMS / program.name
            same = committed.exists() and targets_of(graph_of(program)) == targets_of(graph_of(committed))
            differ += not same
            print(f"{name}: {'same' if same else 'differs'}", flush=True)
    return differ


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="one of " + ", ".join(CASES))
    parser.add_argument("--check", action="store_true", help="compare graphs with the committed ones")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in CASES]:
        parser.error(f"no such module: {', '.join(unknown)}")
    names = arguments.names or list(CASES)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # torch.export's own code warns of each file
    if arguments.check:
        return check(names) > 0
    PROGRAMS.mkdir(exist_ok=True)
    if not arguments.names:
        make_several(PROGRAMS)
    for name in names:
        program, expected = make(name, PROGRAMS)
        targets = sorted({short(target) for target in targets_of(graph_of(program))})
        print(f"{program.name}  {program.stat().st_size} bytes  {' '.join(targets)}")
        print(f"{expected.name}  {expected.stat().st_size} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
