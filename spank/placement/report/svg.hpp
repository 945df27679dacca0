// SPDX-License-Identifier: Apache-2.0
// A few shapes of SVG 1.1 as text. Not synchronised.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::placement {

/// Pixels; y grows downwards.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  double centre() const { return x + width / 2; }
};

/// Escapes a text for an XML document: &, <, > and quotes. Control characters and bytes that are not UTF-8,
/// which XML 1.0 does not allow, become U+FFFD.
std::string xml_text(std::string_view text);

/// An estimate of a text's width in the widest fonts of the style sheet (DejaVu Sans and Verdana: 0.64 em for
/// a digit, capitals up to 0.78 em).
double text_width(std::string_view text, double size);

class Svg {
 public:
  /// A rectangle. `style` is a class of the style sheet; `fill` (a colour or url(#…)) overrides it. `tip` is
  /// the tooltip; empty: none.
  void rectangle(const Box& box, std::string_view style, std::string_view fill = "",
                 std::string_view tip = "");
  /// A line of text that begins, is centred or ends at x (anchor: start, middle, end), with its baseline at
  /// y. `rules` are CSS declarations for this text alone.
  void text(double x, double y, std::string_view line, std::string_view style,
            std::string_view anchor = "start", std::string_view rules = "");
  /// A curve from one point down to another, with a dark edge.
  void curve(double x1, double y1, double x2, double y2, std::string_view colour);
  /// Straight lines through these points, with a dark edge.
  void lines(const std::vector<std::pair<double, double>>& points, std::string_view colour);
  void begin_group(std::string_view name);
  void end_group();
  /// Appends the shapes of another Svg.
  void append(const Svg& other) { body_ += other.body_; }

  /// The whole document. `definitions` (patterns) and `style_sheet` are inserted unchanged.
  std::string document(double width, double height, std::string_view title, std::string_view definitions,
                       std::string_view style_sheet) const;

 private:
  void link(const std::string& commands, std::string_view colour);

  std::string body_;
};

}  // namespace muster::placement
