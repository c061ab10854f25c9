#include "client/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "client/report/html.h"

namespace gpueta::report {
namespace {

// The drawing's own units.
constexpr double kWidth = 640;
constexpr double kHeight = 420;
constexpr double kLeft = 70;
constexpr double kRight = kWidth - 28;
constexpr double kTop = 28;  // below the legend
constexpr double kBottom = kHeight - 48;
constexpr double kLegendY = 14;
constexpr double kLetter = 7;  // width of one, about
constexpr int kMostTicks = 8;

// Where a value stands on its axis, 0 to 1.
double ShareOf(const Axis& axis, double value) {
  const auto at = [&](double v) { return axis.logarithmic ? std::log10(std::max(v, axis.low)) : v; };
  return std::clamp((at(value) - at(axis.low)) / (at(axis.high) - at(axis.low)), 0.0, 1.0);
}

std::vector<double> TicksOf(const Axis& axis) {
  std::vector<double> ticks;
  if (axis.logarithmic) {
    const double first = std::round(std::log10(axis.low));
    const double last = std::round(std::log10(axis.high));
    const double step = std::ceil((last - first) / kMostTicks);
    for (double decade = first; decade <= last; decade += std::max(step, 1.0)) ticks.push_back(std::pow(10, decade));
    return ticks;
  }
  return RoundSteps(axis.low, axis.high, kMostTicks);
}

}  // namespace

std::vector<double> RoundSteps(double low, double high, int most) {
  const double rough = (high - low) / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough > 5 * power ? 10 : rough > 2 * power ? 5 : rough > power ? 2 : 1);
  std::vector<double> steps;
  for (double i = std::ceil(low / step); i * step <= high * (1 + 1e-12); ++i) steps.push_back(i * step);
  return steps;
}

Axis Decades(std::string label, std::span<const double> values, std::function<std::string(double)> tick) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const double value : values) {
    if (!(value > 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (high == 0) low = high = 1;
  const double first = std::floor(std::log10(low));
  const double last = std::max(std::ceil(std::log10(high)), first + 1);
  return {std::move(label), std::pow(10, first), std::pow(10, last), true, std::move(tick)};
}

Chart::Chart(std::string_view name, Axis x, Axis y) : x_(std::move(x)), y_(std::move(y)), name_(name) { DrawAxes(); }

double Chart::X(double value) const { return kLeft + ShareOf(x_, value) * (kRight - kLeft); }
double Chart::Y(double value) const { return kBottom - ShareOf(y_, value) * (kBottom - kTop); }

void Chart::DrawAxes() {
  auto out = std::back_inserter(marks_);
  for (const double tick : TicksOf(x_)) {
    fmt::format_to(out,
                   "<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>"
                   "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
                   X(tick), kTop, kBottom, kBottom + 16, Escaped(x_.tick(tick)));
  }
  for (const double tick : TicksOf(y_)) {
    fmt::format_to(out,
                   "<path class=\"grid\" d=\"M{0:.1f} {2:.1f}H{1:.1f}\"/>"
                   "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
                   kLeft, kRight, Y(tick), kLeft - 6, Y(tick) + 4, Escaped(y_.tick(tick)));
  }
  fmt::format_to(out, "<path class=\"frame\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>", kLeft, kTop, kBottom, kRight);
  fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", (kLeft + kRight) / 2,
                 kHeight - 10, Escaped(x_.label));
  fmt::format_to(out, "<text transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                 (kTop + kBottom) / 2, Escaped(y_.label));
}

void Chart::Ideal() {
  const double low = std::max(x_.low, y_.low);
  const double high = std::min(x_.high, y_.high);
  marks_ +=
      fmt::format("<path class=\"ideal\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", X(low), Y(low), X(high), Y(high));
}

void Chart::Dots(std::span<const Point> points, int colour) {
  marks_ += fmt::format("<path class=\"dots c{}\" d=\"", colour);
  for (const Point& point : points) marks_ += fmt::format("M{:.1f} {:.1f}h0", X(point.x), Y(point.y));
  marks_ += "\"/>\n";
}

void Chart::Line(std::span<const Point> points, int colour) {
  if (points.empty()) return;
  marks_ += fmt::format("<path class=\"line c{}\" d=\"", colour);
  char move = 'M';
  for (const Point& point : points) {
    marks_ += fmt::format("{}{:.1f} {:.1f}", move, X(point.x), Y(point.y));
    move = 'L';
  }
  marks_ += "\"/>\n";
}

void Chart::Dot(Point point, int colour, std::string_view title, double radius) {
  marks_ += fmt::format("<circle class=\"c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>{}</title></circle>\n",
                        colour, X(point.x), Y(point.y), radius, Escaped(title));
}

void Chart::Roof(std::span<const Point> points, std::string_view text) {
  marks_ += "<path class=\"frame\" d=\"";
  char move = 'M';
  for (const Point& point : points) {
    marks_ += fmt::format("{}{:.1f} {:.1f}", move, X(point.x), Y(point.y));
    move = 'L';
  }
  constexpr double kTextHeight = 13;
  const double y = Y(points.back().y);
  // Below the line where the one before has its text above.
  const bool below = std::abs(y - roof_y_) < kTextHeight + 4;
  roof_y_ = below ? y + kTextHeight : y;
  marks_ += fmt::format("\"/><text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", X(points.back().x) - 4,
                        below ? y + kTextHeight : y - 5, Escaped(text));
}

void Chart::Whisker(double x, double low, double high, int colour) {
  marks_ += fmt::format("<path class=\"line c{}\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", colour, X(x), Y(low), Y(high));
}

void Chart::Legend(std::string_view text, int colour) {
  marks_ += fmt::format("<text class=\"c{}\" x=\"{:.1f}\" y=\"{:.1f}\">● {}</text>\n", colour, kLeft + legend_width_,
                        kLegendY, Escaped(text));
  legend_width_ += kLetter * static_cast<double>(text.size() + 4);
}

std::string Chart::Render() const {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n", kWidth, kHeight,
                     Escaped(name_), marks_);
}

}  // namespace gpueta::report
