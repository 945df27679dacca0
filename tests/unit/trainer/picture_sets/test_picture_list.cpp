// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "has.hpp"
#include "picture_sets/picture_list.hpp"
#include "trainer/data/refusal.hpp"

using namespace muster;
using picture_sets::parse_picture_list;

namespace {

std::string refusal(const std::string& text, const std::string& column = "") {
  return usage_error_text([&] { parse_picture_list(text, column, "list.txt"); });
}

}  // namespace

TEST_CASE("a list has a path and a label in each line", "[picture_sets]") {
  const auto files = parse_picture_list("a/1.jpg 0\r\n\n  my dog.png\t12\nlast.jpg 3", "", "list.txt");
  REQUIRE(files.size() == 3);
  CHECK(files[0].path == "a/1.jpg");
  CHECK(files[0].label == 0);
  CHECK(files[1].path == "my dog.png");
  CHECK(files[1].label == 12);
  CHECK(files[1].line == 3);
  CHECK(files[2].label == 3);
}

TEST_CASE("a first line names the columns, as in Stanford Online Products", "[picture_sets]") {
  const std::string text =
      "image_id class_id super_class_id path\n1 1 1 bicycle_final/111085122871_0.JPG\n2 7 12 a b.JPG\n";
  const auto by_class = parse_picture_list(text, "class_id", "list.txt");
  REQUIRE(by_class.size() == 2);
  CHECK(by_class[0].path == "bicycle_final/111085122871_0.JPG");
  CHECK(by_class[1].path == "a b.JPG");
  CHECK(by_class[1].label == 7);
  CHECK(parse_picture_list(text, "super_class_id", "list.txt")[1].label == 12);
  CHECK(has(refusal(text), "list.txt:1: there is no column label of labels among image_id, class_id, "));
  CHECK(has(refusal(text, "path"), "--label-column"));
  CHECK(parse_picture_list("path label\nx y 4\n", "", "list.txt")[0].path == "x y");
}

TEST_CASE("a line that is no picture is refused with its number", "[picture_sets]") {
  CHECK(refusal("a.jpg 1\nb.jpg\n") == "list.txt:2: it has 1 word, not 2, a path and a label");
  CHECK(refusal("a.jpg one\n") == "list.txt:1: the label one is no number from 0 to 65535");
  CHECK(has(refusal("a.jpg -1\n"), "label -1"));
  CHECK(has(refusal("a.jpg 65536\n"), "label 65536"));
  CHECK(has(refusal("class_id path id\n3 a b c\n", "id"), "4 words, not 3"));
  CHECK(has(refusal("a.jpg 1\n", "class_id"), "does not name columns"));
  CHECK(has(refusal(""), "names no picture"));
  CHECK(has(refusal("path label\n"), "names no picture"));
}
