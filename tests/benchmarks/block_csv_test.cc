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

TEST_CASE("sizes are multiples of each alignment, as offsets are sums of them") {
  const std::string header = "id,lower,upper,size,alignment\n";
  const auto table = parse_blocks(header + "0,0,1,96,8\n1,0,1,192,32\n2,0,1,0,3\n", "blocks.csv");
  CHECK(table.alignment == 96);
  CHECK(refusal(header + "0,0,1,64,32\n1,0,1,40,8\n") ==
        "blocks.csv:3: column 4 (\"size\") is \"40\", and no multiple of 32, the alignment of all: "
        "round it up");
  CHECK(refusal(header + "0,0,1,64,1048576\n1,0,1,64,3\n") ==
        "blocks.csv:3: up to here offsets would be multiples of 3145728, more than 1048576");
}

TEST_CASE("lines may end as on other systems, and the file in empty ones") {
  const auto table =
      parse_blocks("\xef\xbb\xbfid,lower,upper,size\r\n0,0,1,64\r\n\r\n\n", "blocks.csv");
  CHECK(table.blocks.size() == 1);
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
  CHECK(refusal(header + "0,0,1,64\n\n1,0,1,64\n") == "blocks.csv:3: the line is empty");
  std::string large = header;
  for (int i = 0; i < 16384; ++i) large += "0,0,1,281474976710656\n";
  CHECK(parse_blocks(large, "blocks.csv").blocks.size() == 16384);
  CHECK(refusal(large + "0,0,1,1\n") ==
        "blocks.csv:16386: up to here the sizes are more than 4611686018427387904 bytes in all");
  CHECK(refusal(header + "0,x,1,64\n") ==
        "blocks.csv:2: column 2 (\"lower\") is \"x\", and no whole number from 0 to 4194303");
  CHECK(refusal(header + "0,5,5,64\n") ==
        "blocks.csv:2: column 3 (\"upper\") is \"5\", and no whole number from 6 to 4194304");
  CHECK(refusal(header + "0,0,1,-4\n") ==
        "blocks.csv:2: column 4 (\"size\") is \"-4\", and no whole number from 0 to "
        "281474976710656");
}

}  // namespace metronome::tests
