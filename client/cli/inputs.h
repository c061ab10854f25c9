// Reading what commands are given: measurements, profiles, devices.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "core/device/spec.h"
#include "core/measurements/measurements.h"
#include "core/predict/snapshot.h"
#include "gpueta/client.h"

namespace CLI {
class App;
}

namespace gpueta::cli {

// Rows of several files, in order. Errors name file, line and column.
absl::StatusOr<std::vector<Measurement>> ReadMeasurementFiles(const std::vector<std::string>& paths,
                                                              const ReadOptions& options = {});

// The same of one device: INVALID_ARGUMENT naming file and line of the first
// row whose device is neither `slug` nor one of its aliases.
absl::StatusOr<std::vector<Measurement>> ReadMeasurementFilesOf(const std::vector<std::string>& paths,
                                                                const std::string& slug);

// The catalogue's spec, or that of a --spec file.
absl::StatusOr<DeviceSpec> ReadSpec(const std::string& slug, const std::string& spec_path);

// As EstimateOptions has it: the name of the best form is empty.
std::string EstimatorName(const std::string& given);

// --estimator, with the names there are.
void AddEstimatorOption(CLI::App& command, std::string& estimator);

// The directory to load profiles from: --profiles, else the installed one.
std::string ProfileDirectory(const Globals& globals);

// Profiles given one by one, else those of the profile directory.
absl::StatusOr<std::shared_ptr<const Snapshot>> OpenSnapshot(const Globals& globals,
                                                             const std::vector<std::string>& profile_paths);

// The predictors of a snapshot, each looked up once.
class Predictors {
 public:
  explicit Predictors(std::shared_ptr<const Snapshot> snapshot) : snapshot_(std::move(snapshot)) {}
  // Lives as long as this. Errors as Snapshot::Find.
  absl::StatusOr<const Predictor*> For(const std::string& slug);
  // A device by its own spec, unless it has a profile.
  void Add(const DeviceSpec& spec);

 private:
  std::shared_ptr<const Snapshot> snapshot_;
  std::map<std::string, std::shared_ptr<const Predictor>> by_slug_;
};

// INVALID_ARGUMENT when neither --server nor GPUETA_SERVER is given.
absl::StatusOr<Client> ConnectToServer(const Globals& globals);

}  // namespace gpueta::cli
