// SPDX-License-Identifier: Apache-2.0
// A few shapes of SVG 1.1 as text. Not synchronised.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

/// Pixels; y grows downwards.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  double centre() const { return x + width / 2; }
};

/// Escapes a text for an XML or HTML document: &, <, > and quotes. Control characters and bytes that are not
/// UTF-8, which XML 1.0 does not allow, become U+FFFD.
std::string xml_text(std::string_view text);

/// An estimate of a text's width in the widest fonts of the style sheet (DejaVu Sans and Verdana: 0.64 em for
/// a digit, capitals up to 0.78 em).
double text_width(std::string_view text, double size);

/// `style` is always one or more classes of the style sheet, or empty.
class Svg {
 public:
  using Path = std::vector<std::pair<double, double>>;

  /// A rectangle. `fill` (a colour or url(#…)) overrides its style. `tip` is the tooltip; empty: none.
  void rectangle(const Box& box, std::string_view style, std::string_view fill = "",
                 std::string_view tip = "", double corner_radius = 0);
  /// A line of text that begins, is centred or ends at x (anchor: start, middle, end), with its baseline at
  /// y. `rules` are CSS declarations for this text alone.
  void text(double x, double y, std::string_view line, std::string_view style = "",
            std::string_view anchor = "start", std::string_view rules = "");
  /// A line of text that runs upwards, centred at this point.
  void vertical_text(double x, double y, std::string_view line);
  void line(double x1, double y1, double x2, double y2, std::string_view style);
  /// Straight lines through these points.
  void polyline(const Path& points, std::string_view style);
  void circle(double x, double y, double radius, std::string_view style);
  /// A curve from one point down to another, with a dark edge.
  void curve(double x1, double y1, double x2, double y2, std::string_view colour);
  /// Straight lines through these points, with a dark edge.
  void lines(const Path& points, std::string_view colour);
  /// `tip` is the tooltip of all that follows until end_group(); empty: none.
  void begin_group(std::string_view name, std::string_view tip = "");
  void end_group();
  /// Appends the shapes of another Svg.
  void append(const Svg& other) { body_ += other.body_; }

  /// The whole document. `definitions` (patterns) and `style_sheet` are inserted unchanged.
  std::string document(double width, double height, std::string_view title, std::string_view definitions,
                       std::string_view style_sheet) const;
  /// An <svg> element for a page or a file, on a background of the class "paper".
  std::string element(double width, double height, std::string_view style_sheet = "") const;

 private:
  void link(const std::string& commands, std::string_view colour);

  std::string body_;
};

}  // namespace muster
