// SPDX-License-Identifier: Apache-2.0
#include <clocale>
#include <string>

#include "catch.hpp"
#include "has.hpp"
#include "svg/svg.hpp"

using namespace muster;

namespace {

/// A number as the picture has it.
std::string in_picture(double number) {
  Svg svg;
  svg.polyline({{number, 0}}, "");
  const std::string text = svg.element(1, 1), before = "points=\"";
  const std::size_t from = text.find(before) + before.size();
  return text.substr(from, text.find(',', from) - from);
}

}  // namespace

TEST_CASE("A text is escaped for XML and HTML") {
  CHECK(xml_text("a & b < c > \"d\" 'e'") == "a &amp; b &lt; c &gt; &quot;d&quot; &#39;e&#39;");
  CHECK(xml_text("&amp;") == "&amp;amp;");
  for (const std::string plain : {"", "n0:1", "größer …", "核", "\U0001F600", "a\tb\nc\r"})
    CHECK(xml_text(plain) == plain);
}

TEST_CASE("What XML 1.0 does not allow becomes U+FFFD") {
  const std::string odd = "\xef\xbf\xbd";
  CHECK(xml_text(std::string("a\0b", 3)) == "a" + odd + "b");
  CHECK(xml_text("\x1b[0m") == odd + "[0m");
  CHECK(xml_text("\xff<") == odd + "&lt;");
  CHECK(xml_text("\xe2\x82") == odd + odd);             // truncated
  CHECK(xml_text("\xc0\xaf") == odd + odd);             // overlong
  CHECK(xml_text("\xed\xa0\x80") == odd + odd + odd);   // a surrogate
  CHECK(xml_text("\xef\xbf\xbf") == odd + odd + odd);   // U+FFFF
  CHECK(has(xml_text("\xf4\x90\x80\x80"), odd + odd));  // beyond Unicode
}

TEST_CASE("Texts, tooltips and names of groups are escaped in the picture") {
  Svg svg;
  svg.begin_group("a\"b", "<tip>");
  svg.rectangle({1, 2, 3, 4}, "box", "", "x & y");
  svg.text(0, 0, "<script>");
  svg.vertical_text(0, 0, "<script>");
  svg.end_group();
  const std::string text = svg.document(10, 10, "a < b", "", "");
  CHECK(has(text, "<g id=\"a&quot;b\">\n<title>&lt;tip&gt;</title>"));
  CHECK(has(text, "<title>x &amp; y</title></rect>"));
  CHECK(has(text, "<title>a &lt; b</title>"));
  CHECK_FALSE(has(text, "<script>"));
}

TEST_CASE("A number has one decimal at most, and zero has no sign") {
  CHECK(in_picture(12) == "12");
  CHECK(in_picture(12.5) == "12.5");
  CHECK(in_picture(-12.5) == "-12.5");
  CHECK(in_picture(99.96) == "100");
  CHECK(in_picture(100) == "100");
  CHECK(in_picture(0.25) == "0.2");  // exact ties to even, as printf has them
  CHECK(in_picture(0.75) == "0.8");
  CHECK(in_picture(-0.06) == "-0.1");
  CHECK(in_picture(-10) == "-10");
  for (const double zero : {0.0, -0.0, 0.04, -0.04}) CHECK(in_picture(zero) == "0");
  CHECK(in_picture(1e308).size() == 309);
}

TEST_CASE("A number has a point in each locale") {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  // Not every machine has one of these.
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"})
    if (std::setlocale(LC_NUMERIC, name) != nullptr) break;
  const std::string text = in_picture(12.5);
  std::setlocale(LC_NUMERIC, before.c_str());
  CHECK(text == "12.5");
}
