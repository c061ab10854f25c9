// Warnings gathered during an import.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace gpueta::onnx_import {

class Notes {
 public:
  // Something was assumed about the place (a node or an input).
  void Assumed(const std::string& place, const std::string& assumption);
  // A node of this operator type is costed by its memory traffic.
  void CostedByTraffic(const std::string& op_type, const std::string& node);

  // One line each; operators once with their number of nodes; the first some
  // dozens of assumptions and how many more there are.
  std::vector<std::string> Lines() const;

 private:
  struct Traffic {
    int nodes = 0;
    std::string first;
  };
  std::vector<std::string> assumptions_;
  std::size_t more_assumptions_ = 0;
  std::map<std::string, Traffic> traffic_;
};

}  // namespace gpueta::onnx_import
