"""The order of rooms: planted wrong includes are refused, in these words, and this tree has none."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import rooms  # noqa: E402

FOLDERS = ("benchmarks", "distributed", "example", "executor", "graph", "models", "ops")
PUBLIC = {rooms.PUBLIC, "graph/builder/graph.h"}


def tree(folders=FOLDERS):
    """The sources of these folders of this tree, by path."""
    return {
        str(path): path.read_text(encoding="utf-8")
        for folder in folders
        for path in pathlib.Path(folder).rglob("*")
        if path.suffix in (".h", ".cc", ".cu")
    }


class Order(unittest.TestCase):
    def test_wrong_includes_are_refused(self):
        models = "which is not public: models/ includes executor/metronome.h"
        for path, header, error in [
            ("models/mlp.cc", "ops/matmul/matmul.h", f"models/mlp.cc includes ops/matmul/matmul.h, {models}"),
            ("models/mlp.cc", "graph/plan/planner.h", f"models/mlp.cc includes graph/plan/planner.h, {models}"),
            (
                "benchmarks/table.cc",
                "executor/engine/engine.h",
                "benchmarks/table.cc includes executor/engine/engine.h, which is not public: benchmarks/ includes "
                "executor/metronome.h",
            ),
            (
                "example/model.cc",
                "ops/tanh/tanh.h",
                "example/model.cc includes ops/tanh/tanh.h, which is not public: example/ includes "
                "executor/metronome.h",
            ),
            (
                "graph/check/check_plan.cc",
                "graph/plan/planner.h",
                "graph/check/check_plan.cc includes graph/plan/planner.h: graph/check may include graph/control, "
                "graph/ir, graph/plan:data, not graph/plan",
            ),
            (
                "graph/ir/node.h",
                "graph/builder/graph.h",
                "graph/ir/node.h includes graph/builder/graph.h: graph/ir may include graph/ir:op, graph/rules, "
                "not graph/builder",
            ),
            (
                "graph/rules/fold.h",
                "graph/ir/node.h",
                "graph/rules/fold.h includes graph/ir/node.h: graph/rules may include graph/ir:op, not graph/ir",
            ),
            (
                "ops/softmax/softmax.cc",
                "ops/cpu/launch.h",
                "ops/softmax/softmax.cc includes ops/cpu/launch.h: ops may include graph/compounds, "
                "graph/emit, graph/ir, ops/kernel, ops:rows, not ops/cpu",
            ),
            (
                "ops/softmax/softmax_kernels.h",
                "graph/ir/type.h",
                "ops/softmax/softmax_kernels.h includes graph/ir/type.h: ops:kernels may include ops/kernel, not "
                "graph/ir:op",
            ),
            (
                "models/main.cc",
                "benchmarks/compare.h",
                "models/main.cc includes benchmarks/compare.h, which is not public: models/ includes "
                "executor/metronome.h",
            ),
            (
                "models/mlp.cc",
                rooms.DEVICE,
                "models/mlp.cc includes executor/metronome/device.h, which is not public: models/ includes "
                "executor/metronome.h",
            ),
            (
                "executor/attic/old.cc",
                "graph/ir/type.h",
                "executor/attic/old.cc lies in executor/attic, which is no room of tests/source/rooms.py",
            ),
        ]:
            with self.subTest(path=path, header=header):
                self.assertEqual(rooms.wrong_include(path, header, PUBLIC), error)

    def test_wrong_includes_inside_ops_are_refused(self):
        for path, header, error in [
            ("ops/softmax/softmax.cc", "ops/language/layers.h", "ops/softmax lies below ops/language"),
            ("ops/softmax/softmax_cpu.cc", "ops/layers/norms.h", "ops/softmax lies below ops/layers"),
            ("ops/recurrent/recurrent.cc", "ops/losses/losses.h", "ops/recurrent lies below ops/losses"),
            ("ops/softmax/softmax_cuda.cc", "ops/ops.h", "ops/softmax lies below the list of all ops"),
            ("ops/softmax/softmax.h", "ops/own/own_ops.h", "ops/softmax lies below ops/own"),
            ("ops/cpu/bands.h", "ops/bands/bands.h", "ops/cpu lies below ops"),
            ("ops/cpu/isa/rows.cc", "ops/reduce/reduce.h", "ops/cpu lies below ops"),
            ("ops/cuda/table.cc", "ops/ops.h", "ops/cuda lies below the list of all ops"),
            ("ops/reference/table.cc", "ops/optimizers/optimizers.h", "ops/reference lies below ops/optimizers"),
            ("ops/expr/sums.cc", "ops/reduce/reduce.h", "ops/expr lies below ops"),
            ("ops/rules/axis.h", "ops/expr/functions.h", "ops/rules lies below ops/expr"),
            ("ops/ops.h", "ops/losses/losses.h", "the list of all ops lies below ops/losses"),
            ("ops/language/init.cc", "ops/layers/norms.h", "ops/language lies below ops/layers"),
            ("ops/losses/losses.cc", "ops/optimizers/schedules.h", "ops/losses lies below ops/optimizers"),
        ]:
            with self.subTest(path=path, header=header):
                self.assertEqual(rooms.wrong_include(path, header, PUBLIC), f"{path} includes {header}: {error}")

    def test_ops_in_a_circle_are_refused(self):
        def planted(**includes):
            return {
                f"ops/{op}/{op}.cc": "".join(f'#include "ops/{other}/{other}.h"\n' for other in others)
                for op, others in includes.items()
            }

        self.assertEqual(rooms.wrong(planted(sort=["gather", "sort"], gather=["expand"], expand=[])), [])
        self.assertEqual(
            rooms.wrong(planted(expand=["elementwise"], elementwise=["expand"])),
            [
                "ops in a circle: ops/elementwise/elementwise.cc includes ops/expand/expand.h, "
                "ops/expand/expand.cc includes ops/elementwise/elementwise.h"
            ],
        )
        self.assertEqual(
            rooms.wrong(planted(attention=["sort"], sort=["gather"], gather=["slice"], slice=["sort"])),
            [
                "ops in a circle: ops/gather/gather.cc includes ops/slice/slice.h, ops/slice/slice.cc includes "
                "ops/sort/sort.h, ops/sort/sort.cc includes ops/gather/gather.h"
            ],
        )

    def test_what_is_in_order_is_not(self):
        for path, header in [
            ("models/mlp.cc", rooms.PUBLIC),
            ("distributed/distributed.h", "distributed/world/world.h"),
            ("models/mlp.cc", "graph/builder/graph.h"),
            ("models/commands/device.cc", rooms.DEVICE),
            ("benchmarks/commands/compare.cc", rooms.DEVICE),
            ("benchmarks/commands/plan.cc", "models/commands/files.h"),
            ("benchmarks/kernels.cc", "ops/matmul/matmul.h"),
            ("example/soft_cap.cc", rooms.AUTHORS),
            ("graph/check/check_plan.cc", "graph/plan/schedule.h"),
            ("ops/softmax/softmax_cpu.cc", "ops/cpu/launch.h"),
            ("ops/softmax/softmax_cpu.cc", "ops/softmax/softmax.h"),
            ("ops/softmax/softmax.cc", "ops/expr/functions.h"),
            ("ops/sort/sort.cc", "ops/gather/gather.h"),
            ("ops/cuda/source.cc", "ops/cuda/table.h"),
            ("ops/tables/table_cpu.cc", "ops/ops.h"),
            ("ops/losses/losses.cc", "ops/language/layers.h"),
            ("ops/kernel/rows.h", "ops/elementwise/elementwise_rows.h"),
            ("executor/metronome.h", "ops/losses/losses.h"),
        ]:
            with self.subTest(path=path, header=header):
                self.assertIsNone(rooms.wrong_include(path, header, PUBLIC))

    def test_libtorch_where_it_may_not_be_is_refused(self):
        tensor = "#include <ATen/core/Tensor.h>\n"
        headers = "headers of executor/eager, executor/libtorch, ops/cpu, ops/own, ops/reference may"
        sources = (
            "sources of distributed/collectives, distributed/ops, distributed/store, distributed/world, executor/compile, executor/eager, executor/libtorch, executor/run, ops/cpu, ops/own, ops/reference may"
        )
        door, engine = "executor/libtorch/convert.h", "executor/engine/engine.h"
        for planted, errors in [
            ({engine: tensor}, [f"{engine} includes ATen/core/Tensor.h: {headers}, not of executor/engine"]),
            (
                {engine: f'#include "{door}"\n', door: tensor, "executor/cpu/a.cc": f'#include "{engine}"\n'},
                [
                    f"executor/cpu/a.cc includes ATen/core/Tensor.h, by way of {engine}, by way of {door}: {sources}, "
                    "not of executor/cpu",
                    f"{engine} includes ATen/core/Tensor.h, by way of {door}: {headers}, not of executor/engine",
                ],
            ),
            (
                {"executor/run/executable.h": "  # include <c10/util/Exception.h>\n"},
                [f"executor/run/executable.h includes c10/util/Exception.h: {headers}, not of executor/run"],
            ),
            (
                {
                    rooms.PUBLIC: '#include "executor/run/feed.h"\n',
                    "executor/run/feed.h": tensor,
                },
                [
                    f"{rooms.PUBLIC} includes ATen/core/Tensor.h, by way of executor/run/feed.h: {headers}, "
                    "not of public",
                    f"executor/run/feed.h includes ATen/core/Tensor.h: {headers}, not of executor/run",
                ],
            ),
            (
                {"graph/ir/type.cc": "#include <torch/library.h>\n"},
                [f"graph/ir/type.cc includes torch/library.h: {sources}, not of graph/ir:op"],
            ),
            (
                {
                    "ops/own/own_ops.h": tensor,
                    "executor/run/executable.cc": f'#include "{door}"\n',
                    "executor/compile/compile.cc": "#include <ATen/Parallel.h>\n",
                    "executor/eager/eager_memory.h": tensor,
                    "ops/softmax/softmax_reference.cc": tensor,
                    rooms.AUTHORS: '#include "ops/own/own_ops.h"\n',
                    "models/mlp.h": f'#include "{rooms.AUTHORS}"\n',
                    "executor/cpu/b.cc": "// #include <ATen/core/Tensor.h>\nnamespace at {\nclass Tensor;\n}\n",
                    door: tensor,
                },
                [],
            ),
        ]:
            with self.subTest(planted=planted):
                self.assertEqual(rooms.wrong_torch(planted), errors)

    def test_all_of_libtorch_is_refused(self):
        way_out = "include tests/aten.h, and <ATen/ops/NAME.h> for each function that it lacks"
        for header in ("ATen/ATen.h", "ATen/Functions.h", "torch/torch.h"):
            with self.subTest(header=header):
                self.assertEqual(
                    rooms.whole_torch({"tests/ops/a_test.cc": f"#include <vector>\n#  include <{header}>\n"}),
                    [f"tests/ops/a_test.cc includes all of libtorch, <{header}>: {way_out}"],
                )
        few = "#include <ATen/ops/gelu.h>\n#include <torch/optim/adam.h>\n// #include <ATen/ATen.h>\n"
        self.assertEqual(rooms.whole_torch({"tests/ops/a_test.cc": few + '#include "tests/aten.h"\n'}), [])

    def test_includes_are_read(self):
        text = '#include <vector>\n#include "graph/ir/op.h"\n  #  include "ops/ops.h"  // why\n// #include "models/m.h"\n'
        self.assertEqual(rooms.includes(text), ["graph/ir/op.h", "ops/ops.h"])

    def test_full_rooms_are_told(self):
        paths = [f"graph/ir/{i}.h" for i in range(rooms.MOST_FILES + 1)] + ["graph/check/a.h"]
        self.assertEqual(
            rooms.too_full(paths), [f"graph/ir holds {rooms.MOST_FILES + 1} files, at most {rooms.MOST_FILES}"]
        )


class Tree(unittest.TestCase):
    def test_programs_outside_include_one_header_of_the_tree_by_another(self):
        root = pathlib.Path("include")
        found = {
            str(header.relative_to(root)): rooms.includes(header.read_text(encoding="utf-8"))
            for header in root.rglob("*.h")
        }
        self.assertEqual(found, {facade: [door] for facade, door in rooms.FACADES.items()})

    def test_this_tree_keeps_the_order(self):
        sources = tree()
        self.assertGreater(len(sources), 400)  # the test sees what it is to read
        self.assertEqual(rooms.wrong(sources), [])

    def test_this_tree_includes_libtorch_where_it_may(self):
        self.assertEqual(rooms.wrong_torch(tree()), [])

    def test_tests_do_not_include_all_of_libtorch(self):
        sources = tree(("tests",))
        self.assertIn("tests/aten.h", sources)  # the test sees what it is to read
        self.assertEqual(rooms.whole_torch(sources), [])

    def test_each_room_is_there(self):
        there = {rooms.room_of(path) for path in tree()}
        self.assertEqual(sorted(set(rooms.ORDER) - there), [])

    def test_each_floor_of_ops_is_there(self):
        there = {rooms.floor_of(path)[0] for path in tree(("ops",))}
        floors = set().union(*rooms.FLOORS_BELOW, *rooms.FLOORS_ABOVE)
        self.assertEqual(sorted(floors - there), [])
        self.assertGreater(len(there - floors), 30)  # ops

    def test_no_room_leads_back_to_itself(self):
        self.assertEqual(rooms.circles(), [])

    def test_rooms_can_be_surveyed(self):
        self.assertEqual(rooms.too_full(tree((*FOLDERS, "tests"))), [])


if __name__ == "__main__":
    unittest.main()
