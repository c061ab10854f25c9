// Values side by side, and blocks along time, as inline SVG.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpueta::report {

struct Bar {
  std::string label;
  double value = 0;
  double whisker = 0;  // a line from the bar's end to here; 0: none
  int colour = 0;
  std::string text;  // at the bar's end
};

// Horizontal bars from 0, one below the other in the order given. `name` is
// what a screen reader says.
std::string Bars(std::string_view name, const std::vector<Bar>& bars);

struct Block {
  double start = 0;
  double length = 0;
  int colour = 0;
  std::string title;  // shown when pointed at
};

struct Lane {
  std::string label;
  std::vector<Block> blocks;  // by start
};

// Lanes over one axis from 0 to `end` > 0. Neighbours of one colour that are
// too short to be seen are drawn as one, "12 kernels".
std::string Lanes(std::string_view name, const std::vector<Lane>& lanes, double end,
                  const std::function<std::string(double)>& tick);

}  // namespace gpueta::report
