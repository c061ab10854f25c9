// A simulated card: its settings are files in a directory of their own, which
// outlast the processes that write them, as a real card's clocks do.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "calibration/control/card/card_settings.h"

namespace gpueta::testing_util {

class SimulatedCard {
 public:
  SimulatedCard() {
    static int made = 0;
    directory_ = (std::filesystem::temp_directory_path() /
                  ("simulated_card." + std::to_string(getpid()) + "." + std::to_string(made++)))
                     .string();
    std::filesystem::create_directories(directory_);
    Set("sm_clock_mhz", "1980");
    Set("memory_clock_mhz", "2619");
  }
  ~SimulatedCard() { std::filesystem::remove_all(directory_); }
  SimulatedCard(const SimulatedCard&) = delete;
  SimulatedCard& operator=(const SimulatedCard&) = delete;

  std::string id() const { return FilesCardId(directory_); }
  const std::string& directory() const { return directory_; }
  std::string state() const { return directory_ + "/state"; }  // for journals

  void Set(const std::string& setting, const std::string& value) {
    const std::filesystem::path path = directory_ + "/" + setting;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << value << "\n";
  }
  std::string Get(const std::string& setting) const {
    std::ifstream file(directory_ + "/" + setting);
    std::string value;
    std::getline(file, value);
    return value;
  }

 private:
  std::string directory_;
};

}  // namespace gpueta::testing_util
