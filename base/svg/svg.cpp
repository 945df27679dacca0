// SPDX-License-Identifier: Apache-2.0
#include "svg/svg.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace muster {

namespace {

/// One decimal at most, in every locale: "12", "12.5".
std::string number(double value) {
  char digits[512];  // the largest double has 309
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, 1).ptr;
  std::string_view text(digits, static_cast<std::size_t>(end - digits));
  if (text.ends_with(".0")) text.remove_suffix(2);
  return std::string(text == "-0" ? "0" : text);
}

std::string attribute(std::string_view name, std::string_view value) {
  std::string text;
  if (!value.empty()) text.append(" ").append(name).append("=\"").append(value).append("\"");
  return text;
}

std::string attribute(std::string_view name, double value) {
  return attribute(name, std::string_view(number(value)));
}

/// Bytes of the UTF-8 character at the start of a non-empty text; 0 if XML 1.0 does not allow it.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (length == 0 || first > 0xf4 || text.size() < length) return 0;
  unsigned code = first & (0xff >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const unsigned least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  const bool allowed = code >= least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) &&
                       code != 0xfffe && code != 0xffff;
  return allowed ? length : 0;
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    switch (length == 1 ? text.front() : '\0') {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += length == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

double text_width(std::string_view text, double size) {
  double ems = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) == 0x80) continue;  // within a UTF-8 character
    ems += c >= 'A' && c <= 'Z' ? 0.74 : c == ' ' || c == ':' || c == ',' || c == '.' ? 0.36 : 0.64;
  }
  return ems * size;
}

void Svg::rectangle(const Box& box, std::string_view style, std::string_view fill, std::string_view tip,
                    double corner_radius) {
  body_ += "<rect" + attribute("class", style) + attribute("x", box.x) + attribute("y", box.y) +
           attribute("width", box.width) + attribute("height", box.height);
  if (corner_radius > 0) body_ += attribute("rx", corner_radius);
  if (!fill.empty()) body_ += " style=\"fill:" + std::string(fill) + "\"";
  body_ += tip.empty() ? "/>\n" : "><title>" + xml_text(tip) + "</title></rect>\n";
}

void Svg::text(double x, double y, std::string_view line, std::string_view style, std::string_view anchor,
               std::string_view rules) {
  body_ += "<text" + attribute("class", style) + attribute("x", x) + attribute("y", y);
  if (anchor != "start") body_ += attribute("text-anchor", anchor);
  body_ += attribute("style", rules) + ">" + xml_text(line) + "</text>\n";
}

void Svg::vertical_text(double x, double y, std::string_view line) {
  body_ += "<text transform=\"translate(" + number(x) + " " + number(y) +
           ") rotate(-90)\" text-anchor=\"middle\">" + xml_text(line) + "</text>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style) {
  body_ += "<line" + attribute("class", style) + attribute("x1", x1) + attribute("x2", x2) +
           attribute("y1", y1) + attribute("y2", y2) + "/>\n";
}

void Svg::polyline(const Path& points, std::string_view style) {
  body_ += "<polyline" + attribute("class", style) + " points=\"";
  for (const auto& [x, y] : points) body_.append(number(x)).append(",").append(number(y)).append(" ");
  body_ += "\"/>\n";
}

void Svg::circle(double x, double y, double radius, std::string_view style) {
  body_ += "<circle" + attribute("class", style) + attribute("cx", x) + attribute("cy", y) +
           attribute("r", radius) + "/>\n";
}

void Svg::link(const std::string& commands, std::string_view colour) {
  body_.append("<path class=\"edge\" d=\"").append(commands).append("\"/>");
  body_.append("<path class=\"link\" style=\"stroke:").append(colour);
  body_.append("\" d=\"").append(commands).append("\"/>\n");
}

void Svg::curve(double x1, double y1, double x2, double y2, std::string_view colour) {
  const double bend = (y2 - y1) * 0.6;
  std::string commands = "M";
  commands.append(number(x1)).append(" ").append(number(y1)).append(" C").append(number(x1)).append(" ");
  commands.append(number(y1 + bend)).append(" ").append(number(x2)).append(" ").append(number(y2 - bend));
  link(commands.append(" ").append(number(x2)).append(" ").append(number(y2)), colour);
}

void Svg::lines(const Path& points, std::string_view colour) {
  std::string commands;
  for (const auto& [x, y] : points)
    commands.append(commands.empty() ? "M" : " L").append(number(x)).append(" ").append(number(y));
  link(commands, colour);
}

void Svg::begin_group(std::string_view name, std::string_view tip) {
  body_ += "<g" + attribute("id", xml_text(name)) + ">\n";
  if (!tip.empty()) body_ += "<title>" + xml_text(tip) + "</title>";
}

void Svg::end_group() { body_ += "</g>\n"; }

std::string Svg::document(double width, double height, std::string_view title, std::string_view definitions,
                          std::string_view style_sheet) const {
  const std::string size = number(std::ceil(width)) + " " + number(std::ceil(height));
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"" +
         attribute("width", std::ceil(width)) + attribute("height", std::ceil(height)) + " viewBox=\"0 0 " +
         size + "\">\n<title>" + xml_text(title) + "</title>\n<style>\n" + std::string(style_sheet) +
         "</style>\n<defs>\n" + std::string(definitions) + "</defs>\n" + body_ + "</svg>\n";
}

std::string Svg::element(double width, double height, std::string_view style_sheet) const {
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " +
                     number(height) + "\"" + attribute("width", width) + attribute("height", height) + ">\n";
  if (!style_sheet.empty()) text.append("<style>").append(style_sheet).append("</style>\n");
  return text + "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n" + body_ + "</svg>\n";
}

}  // namespace muster
