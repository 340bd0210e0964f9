// Points of a training for its page: whoever joins late, or is told in parts, has the same.
#include "executor/monitor/points.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/doctest.h"

namespace metronome {
namespace {

using executor::NewsCursor;
using executor::Points;
using nlohmann::json;

// A page: what it was told, put together as executor/pages/watch.js does.
struct Page {
  struct Series {
    std::string name;
    std::int64_t stride = 1;
    json points = json::array();  // [step, value]
    json last;
  };
  NewsCursor told;
  std::vector<Series> series;
  json rest;

  void take(const Points& points) {
    rest = json::parse(points.news(told));
    for (const json& each : rest.at("series")) {
      const std::size_t at = each.at("at");
      if (series.size() <= at) series.resize(at + 1);
      Series& one = series[at];
      one.name = each.at("name");
      for (; one.stride < each.at("stride"); one.stride *= 2) {
        json kept = json::array();
        for (std::size_t i = 0; i < one.points.size(); i += 2) kept.push_back(one.points[i]);
        one.points = kept;
      }
      const json& flat = each.at("points");
      for (std::size_t i = 0; i < flat.size(); i += 2) one.points.push_back({flat[i], flat[i + 1]});
      one.last = each.at("last");
    }
  }
};

TEST_CASE("pages have the same points whenever they are told") {
  Points points("run", 0);
  std::vector<Page> pages(4);
  constexpr int kSteps = 40000;
  for (int step = 0; step < kSteps; ++step) {
    points.add("loss", step, step * 0.5);
    if (step % 10 == 0) points.add("rare", step, -step);
    if (step % 37 == 0) pages[0].take(points);
    if (step % 5003 == 17) pages[1].take(points);
    if (step == 4095 || step == 4096 || step == 8193) pages[2].take(points);
  }
  for (Page& page : pages) {
    page.take(points);
    REQUIRE(page.series.size() == 2);
    const Page::Series& loss = page.series[0];
    CHECK(loss.name == "loss");
    CHECK(loss.stride == 16);
    REQUIRE(loss.points.size() == kSteps / 16);
    for (int i = 0; i < kSteps / 16; ++i) REQUIRE(loss.points[i] == json{16 * i, 8.0 * i});
    CHECK(loss.last == json{kSteps - 1, (kSteps - 1) * 0.5});
    CHECK(page.series[1].points.size() == 4000);
    CHECK(page.series[1].stride == 1);
    // Nothing is told twice.
    page.take(points);
    CHECK(page.rest.at("series").empty());
  }
}

TEST_CASE("at most so many points of a name are kept") {
  Points points("run", 0);
  Page page;
  for (int step = 1; step <= 100000; ++step) points.add("loss", step, 1);
  page.take(points);
  const std::size_t kept = page.series[0].points.size();
  CHECK(kept <= Points::kMostPoints);
  CHECK(kept > Points::kMostPoints / 2);
}

TEST_CASE("any number and any text becomes JSON") {
  const double infinity = std::numeric_limits<double>::infinity();
  Points points("a \"run\" \xff\n", 10);
  Page page;
  page.take(points);
  CHECK(page.rest.at("title") == "a \"run\" \xEF\xBF\xBD\n");
  CHECK(page.rest.at("rate").is_null());
  CHECK(page.rest.at("left").is_null());
  CHECK(page.rest.at("steps") == 10);
  CHECK(page.rest.at("memory") > 1 << 20);
  for (const double value : {std::nan(""), infinity, -infinity, 1e-300, -0.1, 1e300}) {
    points.add("a\\b", 3, value);
  }
  points.note("\"\xff\n");
  page.take(points);
  CHECK(page.series[0].name == "a\\b");
  const json expected = {"NaN", "Infinity", "-Infinity", 1e-300, -0.1, 1e300};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(page.series[0].points[i] == json{3, expected[i]});
  }
  CHECK(page.rest.at("notes")[0][1] == 3);
  CHECK(page.rest.at("notes")[0][2] == "\"\xEF\xBF\xBD\n");
  CHECK(page.rest.at("step") == 3);
}

TEST_CASE("the last notes are kept, and each is told once") {
  Points points("run", 0);
  Page early, late;
  points.note("0");
  early.take(points);
  CHECK(early.rest.at("notes").size() == 1);
  for (int i = 1; i <= 130; ++i) points.note(std::to_string(i));
  for (Page* page : {&early, &late}) {
    page->take(points);
    REQUIRE(page->rest.at("notes").size() == Points::kMostNotes);
    CHECK(page->rest.at("notes").front()[2] == "31");
    CHECK(page->rest.at("notes").back()[2] == "130");
    page->take(points);
    CHECK(page->rest.at("notes").empty());
  }
}

TEST_CASE("rate and time left are of the last seconds") {
  Points points("run", 1000);
  Page page;
  for (int step = 501; step <= 560; ++step) {
    points.add("loss", step, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  page.take(points);
  const double rate = page.rest.at("rate"), left = page.rest.at("left");
  CHECK(rate > 5);
  CHECK(rate < 50.5);
  CHECK(left == doctest::Approx(440 / rate));
  points.end(Points::State::failed);
  CHECK(!page.told.ended);
  page.take(points);
  CHECK(page.told.ended);
  CHECK(page.rest.at("state") == "failed");
}

TEST_CASE("who adds waits for no reader") {
  Points points("run", 0);
  std::vector<std::thread> readers;
  std::atomic<bool> ends = false;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!ends) Page().take(points);
    });
  }
  for (int step = 0; step < 200000; ++step) points.add("loss", step, 1);
  ends = true;
  for (std::thread& reader : readers) reader.join();
  Page page;
  page.take(points);
  CHECK(page.series[0].last == json{199999, 1});
  for (std::size_t i = 0; i < page.series[0].points.size(); ++i) {
    REQUIRE(page.series[0].points[i][0] == page.series[0].stride * static_cast<std::int64_t>(i));
  }
}

}  // namespace
}  // namespace metronome
