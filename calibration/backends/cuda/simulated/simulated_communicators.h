// A simulated library of collectives: the law by which ranks on simulated devices
// exchange. It moves nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibration/backends/cuda/driver/communicators.h"
#include "calibration/backends/cuda/simulated/simulated_driver.h"

namespace gpueta {

// What tests know and measuring has to find out.
struct SimulatedLinks {
  double start_us = 6;      // of every collective
  double step_us = 1.5;     // of each of the steps that a ring of ranks makes
  double gb_s = 200;        // that a rank sends with
  double slow_rank_us = 0;  // that the last rank takes longer than the others
  std::string refuses;      // connecting fails with these words; empty: it does not
  int missing = -1;         // a rank that never comes, so that the others hang
  std::string breaks;       // what the library says of a rank that is missing

  // What tests look at afterwards.
  std::size_t connected = 0;
  std::size_t ended = 0;
  std::size_t aborted = 0;
  std::size_t waits_for_graphs = 0;  // ended or aborted while a graph held them: NCCL would hang
};

// start + steps·step + bytes over the links' rate, by what the ranks call.
double SimulatedExchangeUs(const SimulatedLinks& links, const std::vector<std::vector<ExchangeCall>>& calls,
                           DType dtype);

// Ranks on simulated devices. `links` must outlive it.
std::unique_ptr<CollectiveLibrary> MakeSimulatedCollectives(SimulatedLinks& links);

}  // namespace gpueta
