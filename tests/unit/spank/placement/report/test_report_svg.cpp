// SPDX-License-Identifier: Apache-2.0
// The picture of a node as a document: it is valid, nothing is clipped, and no text overlaps another.
#include <map>
#include <pugixml.hpp>

#include "catch.hpp"
#include "placement/report/report_svg.hpp"
#include "placement/report/task_colours.hpp"
#include "spank/placement/machines.hpp"
#include "svg/svg.hpp"

using namespace muster::placement;
using namespace muster::placement::test;
using muster::Box;
using muster::text_width;
using muster::xml_text;

namespace {

struct Line {
  std::string text;
  Box box;
};

double font_size(const std::string& style) {
  static const std::map<std::string, double> sizes = {
      {"title", 20},  {"subtitle", 12}, {"note", 12}, {"heading", 12}, {"small", 10},
      {"device", 11}, {"label", 10},    {"cell", 12}, {"cpu", 7},      {"task", 9}};
  return sizes.at(style);
}

/// Draws a picture and checks it: another library parses it, everything is on the page, and texts do not
/// overlap.
struct Picture {
  explicit Picture(const Node& node, const Request& request) {
    const std::string svg = report_svg(node, place(node, request));
    const auto parsed = document.load_buffer(svg.data(), svg.size());
    INFO(parsed.description());
    REQUIRE(parsed);
    page = {0, 0, document.child("svg").attribute("width").as_double(),
            document.child("svg").attribute("height").as_double()};
    for (const auto& found : document.select_nodes("//text")) add(found.node());
    CHECK(document.select_nodes("//*[@href]").empty());
    for (const auto& found : document.select_nodes("//rect[@x]")) {
      const auto rectangle = found.node();
      CHECK(rectangle.attribute("x").as_double() >= 0);
      CHECK(rectangle.attribute("x").as_double() + rectangle.attribute("width").as_double() <= page.width);
      CHECK(rectangle.attribute("y").as_double() + rectangle.attribute("height").as_double() <= page.height);
    }
    check_texts();
  }

  void add(const pugi::xml_node& text) {
    const double size = font_size(text.attribute("class").as_string());
    const double width = text_width(text.child_value(), size);
    const std::string anchor = text.attribute("text-anchor").as_string("start");
    const double shift = anchor == "end" ? width : anchor == "middle" ? width / 2 : 0;
    lines.push_back({text.child_value(),
                     {text.attribute("x").as_double() - shift, text.attribute("y").as_double() - size * 0.75,
                      width, size * 0.75}});
  }

  void check_texts() const {
    int overlaps = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const Box& a = lines[i].box;
      INFO(lines[i].text);
      CHECK(a.x >= 0);
      CHECK(a.right() <= page.width);
      CHECK(a.bottom() <= page.height);
      for (std::size_t j = i + 1; j < lines.size(); ++j) {
        const Box& b = lines[j].box;
        if (a.x >= b.right() || b.x >= a.right() || a.y >= b.bottom() || b.y >= a.bottom()) continue;
        ++overlaps;
        UNSCOPED_INFO(lines[i].text << " on " << lines[j].text);
      }
    }
    CHECK(overlaps == 0);
  }

  int count(const std::string& text) const {
    return static_cast<int>(
        std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.text == text; }));
  }

  pugi::xml_document document;
  Box page;
  std::vector<Line> lines;
};

Request request_all_gpus(const Node& node, int tasks) {
  Request request;
  request.tasks = tasks;
  request.gpus = addresses(node);
  return request;
}

}  // namespace

TEST_CASE("The picture has every CPU, GPU and NIC, each with its task") {
  Node node = make_node({2, 2, 4, 2});
  for (int i = 0; i < 4; ++i) {
    add_gpu(node, i, 0x10 + 0x20 * i);
    add_nic(node, "mlx5_" + std::to_string(i), i, 0x11 + 0x20 * i, 0x10 + 0x20 * i);
  }
  const Picture picture(node, request_all_gpus(node, 4));
  for (const auto& gpu : node.gpus)
    CHECK(picture.count(gpu.pci.to_string()) == 2);  // in the picture and the table
  for (const auto& nic : node.nics) CHECK(picture.count(nic.label() + ":1") == 2);
  for (int task = 0; task < 4; ++task) {
    CHECK(picture.count("T" + std::to_string(task)) == 4);
    CHECK(picture.count("task " + std::to_string(task)) == 2);  // its GPU and its NIC
  }
  CHECK(picture.document.select_nodes("//path[@class='link']").size() == 4);
  CHECK(picture.count("Package 1") == 1);
  CHECK(picture.count("NUMA 3") == 2);  // its box, and the memory of task 3
}

TEST_CASE("Pictures of small and large machines are not clipped, and their texts do not overlap") {
  const auto [packages, domains, cores, threads, gpus] = GENERATE(table<int, int, int, int, int>({
      {1, 1, 2, 1, 0},
      {1, 1, 1, 1, 1},
      {2, 1, 64, 2, 16},
      {2, 4, 16, 2, 8},
      {4, 9, 4, 1, 16},
      {1, 36, 2, 1, 3},
      {2, 1, 8, 4, 6},
      {8, 1, 1, 8, 16},
  }));
  INFO(packages << " packages, " << domains << " domains, " << cores << " cores, " << threads << " threads");
  Node node = make_node({packages, domains, cores, threads});
  for (int i = 0; i < gpus; ++i) {
    add_gpu(node, i % (packages * domains), 0x04 + 0x08 * i);
    if (i % 2 == 0)
      add_nic(node, "mlx5_" + std::to_string(i), (i + 1) % (packages * domains), 0x05 + 0x08 * i);
  }
  for (const bool all_threads : {false, true}) {
    Request request = request_all_gpus(node, std::max(1, gpus));
    request.hardware_threads = all_threads;
    const Picture picture(node, request);
    CHECK(picture.page.width < 1800);
  }
}

TEST_CASE("Memory-only domains and devices of unknown locality are drawn") {
  Node node = make_node({1, 1, 4, 1});
  add_gpu(node, 0, 0x10);
  add_gpu(node, -1, 0x20);
  for (int id = 1; id < 33; ++id) {
    NumaDomain domain;
    domain.id = id;
    domain.gpu_memory = id % 2 == 0;
    domain.memory_bytes = std::uint64_t{16} << 30;
    node.domains.push_back(domain);
  }
  finish(node);
  const Picture picture(node, request_all_gpus(node, 2));
  CHECK(picture.count("NUMA 31: 16 GiB") == 1);
  CHECK(picture.count("NUMA 32: GPU memory") == 1);
  CHECK(picture.count("locality unknown") == 1);
}

TEST_CASE("Names from outside are escaped") {
  Node node = make_node({1, 1, 2, 1});
  add_gpu(node, 0, 0x10);
  node.gpus[0].model = "\"]]><script>&'\xff\x01";
  node.host = "<n&1>";
  node.source = "/tmp/--><x>.xml";
  const Picture picture(node, request_all_gpus(node, 1));
  CHECK(picture.count("1 task on <n&1>") == 1);
  CHECK(picture.document.select_nodes("//script").empty());
  CHECK(xml_text("a\x01\xff\xc0\x80\xed\xa0\x80z") ==
        "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
  CHECK(xml_text("\xe2\x80\xa6") == "\xe2\x80\xa6");
}

TEST_CASE("The first 28 tasks have different fills; repeated colours have a pattern") {
  std::map<std::string, int> styles;
  for (int task = 0; task < 28; ++task) ++styles[task_fill(task)];
  CHECK(styles.size() == 28);
  CHECK(task_colour(0) == task_colour(7));
  const std::string definitions = "<d>" + pattern_definitions(100) + "</d>";
  pugi::xml_document document;
  REQUIRE(document.load_buffer(definitions.data(), definitions.size()));
  for (int task = 7; task < 28; ++task)
    CHECK(document.select_nodes(("//pattern[@id='task-" + std::to_string(task) + "']").c_str()).size() == 1);
}

TEST_CASE("CPUs that several tasks share show the number of tasks") {
  Node node = make_node({1, 1, 1, 1});
  add_gpu(node, 0, 0x10);
  add_gpu(node, 0, 0x20);
  const Picture picture(node, request_all_gpus(node, 2));
  CHECK(picture.count("x2") == 1);
}
