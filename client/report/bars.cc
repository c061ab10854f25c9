#include "client/report/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "client/report/chart.h"
#include "client/report/html.h"

namespace gpueta::report {
namespace {

// The drawing's own units.
constexpr double kWidth = 1000;
constexpr double kLetter = 7;  // width of one, about
constexpr double kBarHeight = 16;
constexpr double kBarPitch = 24;
constexpr double kLaneHeight = 34;
constexpr double kLanePitch = 48;
constexpr double kLaneLeft = 70;
constexpr double kLaneRight = kWidth - 30;
constexpr double kVisible = 0.7;  // what is shorter is drawn with its neighbours
constexpr double kSlit = 0.3;     // between blocks

double WidthOf(std::string_view text) {
  return kLetter * static_cast<double>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string OpenSvg(std::string_view name, double height) {
  return fmt::format("<svg class=\"full\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                     height, Escaped(name));
}

void DrawBlock(const Block& block, double x, double width, double y, double height, std::string& out) {
  fmt::format_to(std::back_inserter(out),
                 "<rect class=\"c{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\">", block.colour, x,
                 y, width, height);
  if (!block.title.empty()) out += "<title>" + Escaped(block.title) + "</title>";
  out += "</rect>\n";
}

}  // namespace

std::string Bars(std::string_view name, const std::vector<Bar>& bars) {
  double left = 0;
  double right = 0;
  double most = 0;
  for (const Bar& bar : bars) {
    left = std::max(left, WidthOf(bar.label) + 12);
    right = std::max(right, WidthOf(bar.text) + 12);
    most = std::max({most, bar.value, bar.whisker});
  }
  left = std::min(left, kWidth / 2);
  const double scale = most > 0 ? std::max(kWidth - left - right, 100.0) / most : 0;
  std::string out = OpenSvg(name, kBarPitch * static_cast<double>(bars.size()) + 4);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const double y = 4 + kBarPitch * static_cast<double>(i);
    const double middle = y + kBarHeight / 2;
    const double end = left + scale * std::max(bar.value, bar.whisker);
    fmt::format_to(std::back_inserter(out), "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", left - 8,
                   middle + 4, Escaped(bar.label));
    DrawBlock({.colour = bar.colour}, left, scale * bar.value, y, kBarHeight, out);
    if (bar.whisker > 0) {
      fmt::format_to(std::back_inserter(out),
                     "<path class=\"line c{0}\" d=\"M{1:.1f} {2:.1f}H{3:.1f}M{3:.1f} {4:.1f}V{5:.1f}\"/>", bar.colour,
                     left + scale * bar.value, middle, left + scale * bar.whisker, middle - 4, middle + 4);
    }
    fmt::format_to(std::back_inserter(out), "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", end + 6, middle + 4,
                   Escaped(bar.text));
  }
  return out + "</svg>\n";
}

std::string Lanes(std::string_view name, const std::vector<Lane>& lanes, double end,
                  const std::function<std::string(double)>& tick) {
  const double scale = (kLaneRight - kLaneLeft) / end;
  const double bottom = kLanePitch * static_cast<double>(lanes.size());
  std::string out = OpenSvg(name, bottom + 24);
  for (const double at : RoundSteps(0, end, 8)) {
    fmt::format_to(std::back_inserter(out),
                   "<path class=\"grid\" d=\"M{0:.1f} 0V{1:.1f}\"/><text x=\"{0:.1f}\" y=\"{2:.1f}\" "
                   "text-anchor=\"middle\">{3}</text>\n",
                   kLaneLeft + scale * at, bottom, bottom + 16, Escaped(tick(at)));
  }
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const std::vector<Block>& blocks = lanes[l].blocks;
    const double y = 6 + kLanePitch * static_cast<double>(l);
    fmt::format_to(std::back_inserter(out), "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                   kLaneLeft - 8, y + kLaneHeight / 2 + 4, Escaped(lanes[l].label));
    for (std::size_t i = 0; i < blocks.size();) {
      const double x = kLaneLeft + scale * blocks[i].start;
      double right = x + scale * blocks[i].length;
      std::size_t next = i + 1;
      // As long as the run is too short to be seen, or what comes next is.
      while (next < blocks.size() && blocks[next].colour == blocks[i].colour &&
             (right - x < kVisible || scale * blocks[next].length < kVisible) &&
             kLaneLeft + scale * blocks[next].start - right < kVisible) {
        right = kLaneLeft + scale * (blocks[next].start + blocks[next].length);
        ++next;
      }
      Block drawn = blocks[i];
      if (next - i > 1) drawn.title = fmt::format("{} kernels, the first: {}", next - i, blocks[i].title);
      const double width = std::max(right - x - (right - x > 3 * kSlit ? kSlit : 0), kSlit);
      DrawBlock(drawn, x, width, y, kLaneHeight, out);
      i = next;
    }
  }
  return out + "</svg>\n";
}

}  // namespace gpueta::report
