#include "benchmarks/planner/block_csv.h"

#include <string>

#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome::tests {
namespace {

using benchmarks::parse_blocks;

std::string refusal(const std::string& text) {
  return error_of<RunError>([&] { parse_blocks(text, "blocks.csv"); });
}

}  // namespace

TEST_CASE("a block is held to before its upper step, in whatever order columns stand") {
  const auto table = parse_blocks("size,id,upper,lower\r\n64,a,3,0\r\n128,b,9,3", "blocks.csv");
  REQUIRE(table.blocks.size() == 2);
  CHECK(table.blocks[0] == plan::HeldBlock{0, 2, 64});
  CHECK(table.blocks[1] == plan::HeldBlock{3, 8, 128});
  const std::size_t offsets[] = {0, 64};
  CHECK(print_offsets(table, offsets) == "size,id,upper,lower,offset\n64,a,3,0,0\n128,b,9,3,64\n");
}

TEST_CASE("sizes are rounded up to the largest alignment") {
  const auto table =
      parse_blocks("id,lower,upper,size,alignment\n0,0,1,10,8\n1,0,1,64,32\n", "blocks.csv");
  CHECK(table.alignment == 32);
  CHECK(table.blocks[0].bytes == 32);
  CHECK(table.blocks[1].bytes == 64);
}

TEST_CASE("a line that is none is refused with its number and column") {
  CHECK(refusal("") == "blocks.csv:1: the file is empty");
  CHECK(refusal("id,lower,upper\n") == "blocks.csv:1: the column \"size\" is missing");
  CHECK(refusal("id,lower,upper,size,size\n") == "blocks.csv:1: the column \"size\" stands twice");
  CHECK(refusal("id,lower,upper,bytes\n") ==
        "blocks.csv:1: there is no column \"bytes\"; there are id, lower, upper, size and "
        "alignment");
  const std::string header = "id,lower,upper,size\n";
  CHECK(refusal(header + "0,0,1,64\n1,0,1\n") ==
        "blocks.csv:3: it has 3 columns, and the header 4");
  CHECK(refusal(header + "0,x,1,64\n") ==
        "blocks.csv:2: column 2 (\"lower\") is \"x\", and no whole number from 0 to 2147483646");
  CHECK(refusal(header + "0,5,5,64\n") ==
        "blocks.csv:2: column 3 (\"upper\") is \"5\", and no whole number from 6 to 2147483647");
  CHECK(refusal(header + "0,0,1,-4\n") ==
        "blocks.csv:2: column 4 (\"size\") is \"-4\", and no whole number from 0 to "
        "281474976710656");
}

}  // namespace metronome::tests
