// Asking for a model's latency, in process or through a server.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "client/cli/model_input.h"
#include "client/cli/node_input.h"
#include "core/device/spec.h"
#include "core/predict/estimate.h"
#include "core/predict/predictor.h"
#include "core/predict/snapshot.h"
#include "gpueta/v1/prediction_service.pb.h"

namespace CLI {
class App;
}

namespace gpueta::cli {

struct ModelQuestion {
  std::string model;  // a file, or with --server a registered model's name
  std::vector<std::string> profile_paths;
  std::vector<std::string> devices;
  DimArgs dims;
  RunArgs run;
  std::string spec;  // file with a spec row; empty: the catalogue's
  std::string estimator;
  std::string host_issue;  // a duration; empty: not known
  double host_copy_gb_s = 0;
  bool no_correction = false;
  NodeArgs node;
  std::string slice;                         // of each device; empty: all of it
  std::optional<std::int64_t> traced_batch;  // of a trace, which then has the symbol `batch`
};

// --profile, --device, --spec, --estimator, dims and how the model runs.
void AddQuestionOptions(CLI::App& command, ModelQuestion& question);

struct DeviceAnswer {
  std::string device;
  DeviceSpec spec;         // as far as it is known here
  std::string profile_id;  // empty: no profile of its own
  std::int64_t profile_version = 0;
  GraphEstimate estimate;
  std::vector<KernelRun> runs;         // of the estimate's parts; in process only
  std::vector<std::string> relatives;  // what was taken from which devices, a line a table; in process only
};

// A graph with the kernel of every node.
struct BoundGraph {
  Graph graph;
  std::vector<Kernel> kernels;
};

// A model and what answers for it, opened once and asked any number of times.
class OpenModel {
 public:
  // INVALID_ARGUMENT for a model that cannot run as asked, a --spec that no
  // device needs, or one of `question.devices` that nobody knows.
  static absl::StatusOr<OpenModel> Open(const ModelQuestion& question, const Globals& globals);

  // A registered model has its symbols only.
  bool is_registered() const { return registered_; }
  const Graph& graph() const { return graph_; }

  // The values of symbols as the question has them.
  absl::StatusOr<SymbolValues> Dims() const {
    return SymbolsOf(graph(), question_.dims, question_.run.kv_len, batch_shares());
  }
  // What the batch must be a multiple of.
  std::int64_t batch_shares() const { return BatchSharesOf(question_.run); }
  // The graph as a device runs it. FAILED_PRECONDITION for a registered model.
  absl::StatusOr<BoundGraph> Bound(const DeviceSpec& spec, const SymbolValues& dims) const;

  // One answer a device, in the order asked. With --server, through one
  // StreamPredict; the first device that cannot answer is the error.
  absl::StatusOr<std::vector<DeviceAnswer>> Ask(const std::vector<std::string>& devices,
                                                const SymbolValues& dims) const;

  // The workload and the options of a request to a server.
  template <class Request>
  void Fill(const SymbolValues& dims, Request& request) const;
  v1::DeviceSelector Selector(const std::string& device) const;

 private:
  OpenModel() = default;
  absl::Status ReadTrace();
  absl::StatusOr<std::vector<DeviceAnswer>> AskInProcess(const std::vector<std::string>& devices,
                                                         const SymbolValues& dims) const;
  absl::StatusOr<std::vector<DeviceAnswer>> AskServer(const std::vector<std::string>& devices,
                                                      const SymbolValues& dims) const;

  ModelQuestion question_;
  EstimateOptions options_;
  std::string server_;
  Graph graph_;
  bool registered_ = false;
  // Of a trace, as it was: what its nodes took, and who answers for the device that
  // they ran on; nullptr for any other model.
  std::vector<double> traced_us_;
  std::shared_ptr<const Predictor> traced_on_;
  std::optional<DeviceSpec> own_spec_;
  std::shared_ptr<const Snapshot> snapshot_;  // in process
};

// Devices with a profile to answer from in process, CPUs left out, sorted.
absl::StatusOr<std::vector<std::string>> ProfiledGpus(const Globals& globals);

}  // namespace gpueta::cli
