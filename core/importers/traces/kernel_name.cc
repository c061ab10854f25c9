#include "core/importers/traces/kernel_name.h"

#include <algorithm>

namespace gpueta {
namespace {

constexpr std::size_t kMaxName = 128;

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::string ShortKernelName(std::string_view name) {
  std::string outside;  // what stands in no brackets
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const std::string_view rest = name.substr(i);
    constexpr std::string_view kAnonymous = "(anonymous namespace)::";
    if (depth == 0 && rest.starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
      outside.clear();
      continue;
    }
    if (depth == 0 && name[i] == '(') break;
    if (name[i] == '<') ++depth;
    if (depth == 0) outside += name[i];
    if (name[i] == '>') depth = std::max(depth - 1, 0);
  }
  while (!outside.empty() && outside.back() == ' ') outside.pop_back();
  constexpr std::string_view kReturns = "void ";  // all kernels do
  if (outside.starts_with(kReturns)) outside.erase(0, kReturns.size());
  const std::size_t colons = outside.rfind("::");
  if (colons != std::string::npos) outside.erase(0, colons + 2);
  for (char& c : outside) {
    if (c == ' ') c = '_';
    if (c < ' ' || c > '~' || c == ',' || c == '"') c = '?';
  }
  return outside.substr(0, kMaxName);
}

std::string TypeInKernelName(std::string_view name) {
  const bool product = Contains(name, "gemm") || Contains(name, "cutlass") || Contains(name, "fmha") ||
                       Contains(name, "flash") || Contains(name, "conv") || Contains(name, "nvjet");
  if (!product) return "";
  if (Contains(name, "bf16") || Contains(name, "bfloat16") || Contains(name, "Bfloat16")) return "c10::BFloat16";
  if (Contains(name, "fp16") || Contains(name, "f16") || Contains(name, "hgemm") || Contains(name, "h884") ||
      Contains(name, "h1688") || Contains(name, "s884") || Contains(name, "__half") || Contains(name, "half_t")) {
    return "c10::Half";
  }
  if (Contains(name, "dgemm") || Contains(name, "d884")) return "double";
  if (Contains(name, "sgemm") || Contains(name, "tf32") || Contains(name, "f32")) return "float";
  return "";
}

}  // namespace gpueta
