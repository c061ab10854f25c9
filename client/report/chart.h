// One chart as inline SVG.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpueta::report {

struct Axis {
  std::string label;
  double low = 0;
  double high = 1;                          // above low; both above 0 where logarithmic
  bool logarithmic = false;                 // ticks at powers of ten, else at round steps
  std::function<std::string(double)> tick;  // text of a tick
};

// An axis of whole decades that has all values; values ≤ 0 are left out.
Axis Decades(std::string label, std::span<const double> values, std::function<std::string(double)> tick);

// Multiples of 1, 2 or 5 times a power of ten from low to high, at most about
// `most` of them.
std::vector<double> RoundSteps(double low, double high, int most);

inline constexpr double kDotRadius = 3.5;

struct Point {
  double x = 0;
  double y = 0;
};

// Marks are drawn in the order of the calls; points outside the axes stand at
// their edge. `colour` is below kColours (html.h).
class Chart {
 public:
  // `name` is what a screen reader says.
  Chart(std::string_view name, Axis x, Axis y);

  // The line y = x.
  void Ideal();
  void Dots(std::span<const Point> points, int colour);
  void Line(std::span<const Point> points, int colour);
  // A larger dot with a text that shows when pointed at.
  void Dot(Point point, int colour, std::string_view title, double radius = kDotRadius);
  // A line of the axes' colour with a text at its end. Highest last.
  void Roof(std::span<const Point> points, std::string_view text);
  // A vertical line from one y to another.
  void Whisker(double x, double low, double high, int colour);
  // A text in the colour, above the drawing and right of the ones before.
  void Legend(std::string_view text, int colour);

  std::string Render() const;

 private:
  double X(double value) const;
  double Y(double value) const;
  void DrawAxes();

  Axis x_;
  Axis y_;
  std::string name_;
  std::string marks_;
  double legend_width_ = 0;
  double roof_y_ = -1000;  // of the last roof
};

}  // namespace gpueta::report
