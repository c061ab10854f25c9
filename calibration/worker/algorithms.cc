#include "calibration/worker/algorithms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/device/machine_of.h"
#include "core/fit/launch_fit.h"
#include "core/fit/table_data.h"
#include "core/fit/wave_fit.h"
#include "core/measurements/table_of.h"
#include "core/ops/launch.h"
#include "core/predict/wave.h"

namespace gpueta {
namespace {

constexpr std::size_t kConfigurations = 12;
constexpr std::size_t kOthersOfAShape = 3;

// Those that the library chooses most often.
std::set<std::string> MostChosen(std::span<const std::vector<Kernel>> algorithms) {
  std::map<std::string, std::size_t> times;
  for (const std::vector<Kernel>& of_shape : algorithms) {
    if (!of_shape.empty()) ++times[of_shape.front().launch.kernel];
  }
  std::vector<std::pair<std::size_t, std::string>> by_times;
  for (const auto& [name, count] : times) by_times.emplace_back(count, name);
  std::ranges::sort(by_times, std::greater<>());
  if (by_times.size() > kConfigurations) by_times.resize(kConfigurations);
  std::set<std::string> names;
  for (const auto& [count, name] : by_times) names.insert(name);
  return names;
}

// One choice of the library: which configuration, and what each takes, in ln(µs).
struct Choice {
  std::size_t chosen = 0;
  std::vector<double> ln_us;
};

std::vector<Choice> ChoicesAmong(std::span<const KernelConfig> configs, std::span<const Measurement* const> chosen,
                                 const Machine<double>& machine) {
  std::vector<Choice> choices;
  for (const Measurement* row : chosen) {
    const KernelConfig* config = FindConfig(configs, ConfigurationOf(row->kernel));
    if (config == nullptr) continue;
    Choice& choice = choices.emplace_back();
    choice.chosen = static_cast<std::size_t>(config - configs.data());
    Kernel shape = row->kernel;
    shape.launch = {};
    for (const KernelConfig& other : configs) {
      const double us = WaveLatencyUs(shape, machine, other).value_or(0);
      choice.ln_us.push_back(us > 0 ? std::log(us) : INFINITY);  // infinite: takes no part
    }
    if (!std::isfinite(choice.ln_us[choice.chosen])) choices.pop_back();
  }
  return choices;
}

// Logistic regression of the choice on latencies, a constant for each configuration.
// Differences of latency below a few per cent say little.
void FitSelection(std::span<const Choice> choices, std::span<KernelConfig> configs) {
  constexpr double kSharpness = 20;  // of ln(µs)
  constexpr double kRidge = 0.01;    // pulls what was never or always chosen to a finite constant
  constexpr double kStep = 4 / (kSharpness * kSharpness);
  constexpr int kSteps = 1000;
  if (choices.empty()) return;
  std::vector<double> constant(configs.size(), 0.0);
  std::vector<double> share(configs.size());
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> gradient(configs.size(), 0.0);
    for (const Choice& choice : choices) {
      const double best = choice.ln_us[choice.chosen] + constant[choice.chosen];
      double sum = 0;
      for (std::size_t c = 0; c < configs.size(); ++c) {
        share[c] = std::exp(std::min(kSharpness * (best - choice.ln_us[c] - constant[c]), 500.0));
        sum += share[c];
      }
      for (std::size_t c = 0; c < configs.size(); ++c)
        gradient[c] += kSharpness * ((c == choice.chosen ? 1 : 0) - share[c] / sum);
    }
    for (std::size_t c = 0; c < configs.size(); ++c) {
      constant[c] -= kStep * (gradient[c] / static_cast<double>(choices.size()) + kRidge * constant[c]);
    }
  }
  for (std::size_t c = 0; c < configs.size(); ++c) configs[c].selection_ln = static_cast<float>(constant[c]);
}

}  // namespace

std::vector<Kernel> AlternativesOf(Backend& backend, std::span<const Kernel> shapes, std::size_t most_shapes) {
  std::vector<std::vector<Kernel>> algorithms;
  for (const Kernel& shape : shapes) {
    // What names its algorithm has been chosen for the library.
    if (shape.launch.kernel.empty()) algorithms.push_back(backend.Algorithms(shape));
  }
  const std::set<std::string> wanted = MostChosen(algorithms);
  std::vector<Kernel> alternatives;
  std::map<std::string, std::size_t> taken;
  std::size_t shapes_taken = 0;
  for (std::vector<Kernel>& of_shape : algorithms) {
    if (shapes_taken == most_shapes) break;
    if (of_shape.empty()) continue;
    of_shape.erase(of_shape.begin());  // the op's own row
    std::erase_if(of_shape, [&](const Kernel& kernel) { return !wanted.contains(kernel.launch.kernel); });
    std::ranges::stable_sort(of_shape, {}, [&](const Kernel& kernel) { return taken[kernel.launch.kernel]; });
    if (of_shape.size() > kOthersOfAShape) of_shape.resize(kOthersOfAShape);
    for (Kernel& kernel : of_shape) {
      ++taken[kernel.launch.kernel];
      alternatives.push_back(std::move(kernel));
    }
    shapes_taken += of_shape.empty() ? 0 : 1;
  }
  return alternatives;
}

void LearnAlgorithms(std::span<const Measurement> chosen, std::span<const Measurement> alternatives, std::uint64_t seed,
                     Profile& profile) {
  for (Table& table : profile.tables) {
    const auto rows_of = [&](std::span<const Measurement> rows) {
      std::vector<const Measurement*> of_table;
      for (const Measurement& row : rows) {
        if (TableOf(row) == table.key) of_table.push_back(&row);
      }
      return of_table;
    };
    const std::vector<const Measurement*> own = rows_of(chosen);
    const std::vector<const Measurement*> others = rows_of(alternatives);
    if (own.empty() || others.empty()) continue;
    std::vector<const Measurement*> all = own;
    all.insert(all.end(), others.begin(), others.end());
    const Machine<double> machine = MachineOf(profile.spec, table.key);
    const TableData data = MakeTableData(table.key, all, [&](const Measurement&) { return machine; });
    table.kernel_configs = FitKernelConfigs(data);
    FitSelection(ChoicesAmong(table.kernel_configs, own, machine), table.kernel_configs);
    if (table.transferred) continue;  // over another form than the rows' own no launch is learnt
    LaunchFit of_launch = FitLaunchResidual(data, table, seed);
    if (of_launch.residual.weights.empty()) continue;
    table.launch_residual = std::move(of_launch.residual);
    table.launch_interval = of_launch.interval;
  }
}

}  // namespace gpueta
