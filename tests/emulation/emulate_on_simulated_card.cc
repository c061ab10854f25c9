// A worker to be killed: emulates one random target after the other on a
// simulated host whose clocks are settings of a simulated card, until it ends by
// force. Prints a line when the first setting is about to be made.
//
//   emulate_on_simulated_card CARD_DIRECTORY STATE_DIRECTORY GUARD SEED

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "calibration/control/card/card_settings.h"
#include "calibration/control/emulate.h"
#include "calibration/control/testing_simulated_host.h"
#include "core/base/errors.h"

int main(int argc, char** argv) {
  using namespace gpueta;
  using namespace gpueta::testing_util;
  if (argc != 5) return 2;
  std::mt19937 generator(static_cast<unsigned>(std::atoi(argv[4])));
  std::uniform_real_distribution<double> share(0.3, 1);
  const std::vector<Kernel> model = {{.dtype = DType::kFp32, .work = Gemm{.m = 512, .n = 512, .k = 512}},
                                     {.dtype = DType::kFp32, .work = Vector{.op = "relu", .rows = 512, .cols = 4096}}};
  for (bool first = true;; first = false) {
    auto card = GuardedCard::Open(FilesCardId(argv[1]), {.state_directory = argv[2], .program = argv[3]});
    if (!card.ok()) {
      fmt::print(stderr, "{}\n", MessageOf(card.status()));
      return 1;
    }
    if (first) {
      fmt::print("emulating\n");
      std::fflush(stdout);
    }
    ControlSpace space = SimulatedHost::FullSpace();
    space.range(Knob::kMemoryClock) = KnobRange{.least = 1593, .most = 2619, .listed = {1593, 2100, 2619}};
    SimulatedHost host({}, space);
    host.UseCard(*std::move(card));
    for (int i = 0; i < 20; ++i) {
      HiddenDevice target;
      target.tflops *= share(generator);
      target.bandwidth_gb_s *= share(generator);
      const auto emulation = Emulate(host, {.spec = target.Sheet()}, model, {}, SimulatedClock());
      if (!emulation.ok()) {
        fmt::print(stderr, "{}\n", MessageOf(emulation.status()));
        return 1;
      }
    }
  }
}
