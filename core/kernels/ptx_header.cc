#include "core/kernels/ptx_header.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::size_t kMaxEntries = 1 << 14;
constexpr std::size_t kMaxParameters = 1 << 12;
constexpr std::int64_t kMaxParameterBytes = 1 << 20;  // of all; hardware has 32764
constexpr int kMaxDepth = 256;

std::optional<int> BytesOfType(std::string_view type) {
  static constexpr std::array<std::pair<std::string_view, int>, 25> kTypes = {{
      {".u8", 1},     {".s8", 1},      {".b8", 1},         {".e4m3", 1},  {".e5m2", 1}, {".u16", 2}, {".s16", 2},
      {".b16", 2},    {".f16", 2},     {".bf16", 2},       {".u32", 4},   {".s32", 4},  {".b32", 4}, {".f32", 4},
      {".tf32", 4},   {".f16x2", 4},   {".bf16x2", 4},     {".u64", 8},   {".s64", 8},  {".b64", 8}, {".f64", 8},
      {".texref", 8}, {".surfref", 8}, {".samplerref", 8}, {".b128", 16},
  }};
  const auto found = std::ranges::find(kTypes, type, &std::pair<std::string_view, int>::first);
  if (found == kTypes.end()) return std::nullopt;
  return found->second;
}

// Words, numbers and single signs; strings and comments are passed over.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) { Advance(); }

  std::string_view now() const { return token_; }  // empty at the end
  bool done() const { return token_.empty(); }
  std::string_view Take() {
    const std::string_view token = token_;
    Advance();
    return token;
  }
  bool Accept(std::string_view token) {
    if (token_ != token) return false;
    Advance();
    return true;
  }
  absl::Status Unexpected(std::string_view wanted) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(begin_), '\n');
    constexpr std::size_t kShown = 60;
    const std::string_view seen = done() ? "the end" : token_.substr(0, kShown);
    return InvalidArgument("line {}: {} is expected before \"{}\"", line, wanted, seen);
  }

 private:
  static bool IsOfWord(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.' || c == '%' || c == '@';
  }
  bool StartsWith(std::string_view prefix) const { return text_.substr(end_).starts_with(prefix); }
  void SkipPast(std::string_view mark) {
    const std::size_t at = text_.find(mark, end_);
    end_ = at == std::string_view::npos ? text_.size() : at + mark.size();
  }
  void Advance() {
    while (end_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[end_])) != 0) {
        ++end_;
      } else if (StartsWith("//")) {
        SkipPast("\n");
      } else if (StartsWith("/*")) {
        end_ += 2;
        SkipPast("*/");
      } else if (text_[end_] == '"') {
        ++end_;
        SkipPast("\"");
      } else {
        break;
      }
    }
    begin_ = end_;
    while (end_ < text_.size() && IsOfWord(text_[end_])) ++end_;
    if (end_ == begin_ && end_ < text_.size()) ++end_;
    token_ = text_.substr(begin_, end_ - begin_);
  }

  std::string_view text_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string_view token_;
};

std::optional<std::int64_t> NumberOf(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMaxParameterBytes)
    return std::nullopt;
  return value;
}

// Past the "}" of a "{" that has been taken.
absl::Status SkipBody(Tokens& tokens) {
  for (int depth = 1; depth > 0;) {
    if (tokens.done() || depth > kMaxDepth) return tokens.Unexpected("\"}\"");
    const std::string_view token = tokens.Take();
    if (token == "{") ++depth;
    if (token == "}") --depth;
  }
  return absl::OkStatus();
}

// .param .align 8 .b8 name[16]
absl::StatusOr<PtxParameter> ReadParameter(Tokens& tokens) {
  if (!tokens.Accept(".param")) return tokens.Unexpected(".param");
  PtxParameter parameter;
  std::optional<int> element;
  while (tokens.now().starts_with('.')) {
    const std::string_view word = tokens.now();
    if (word == ".align") {
      tokens.Take();
      if (!NumberOf(tokens.now()).has_value()) return tokens.Unexpected("a number");
    } else if (const auto bytes = BytesOfType(word); bytes.has_value()) {
      element = bytes;
    } else if (word != ".ptr" && word != ".global" && word != ".const" && word != ".shared" && word != ".local") {
      return tokens.Unexpected("a type of a parameter");
    }
    tokens.Take();
  }
  if (!element.has_value()) return tokens.Unexpected("a type");
  if (tokens.done() || tokens.now() == "," || tokens.now() == ")") return tokens.Unexpected("a parameter's name");
  parameter.name = tokens.Take();
  parameter.bytes = *element;
  if (tokens.Accept("[")) {
    const auto count = NumberOf(tokens.now());
    if (!count.has_value()) return tokens.Unexpected("a number of elements");
    tokens.Take();
    parameter.bytes *= *count;
    if (!tokens.Accept("]")) return tokens.Unexpected("\"]\"");
  }
  return parameter;
}

// What stands between the parameters and the body.
absl::Status ReadDirectives(Tokens& tokens, PtxEntry& entry) {
  while (tokens.now() != "{" && tokens.now() != ";") {
    if (tokens.done()) return tokens.Unexpected("\"{\"");
    const std::string_view directive = tokens.Take();
    if (directive != ".maxntid" && directive != ".reqntid") continue;
    entry.most_threads = 1;
    do {
      const auto extent = NumberOf(tokens.now());
      if (!extent.has_value() || entry.most_threads > kMaxParameterBytes)
        return tokens.Unexpected("a number of threads");
      entry.most_threads *= *extent;
      tokens.Take();
    } while (tokens.Accept(","));
  }
  return tokens.Accept("{") ? SkipBody(tokens) : absl::OkStatus();
}

absl::StatusOr<PtxEntry> ReadEntry(Tokens& tokens) {
  PtxEntry entry;
  if (tokens.done() || tokens.now() == "(") return tokens.Unexpected("a kernel's name");
  entry.name = tokens.Take();
  std::int64_t bytes = 0;
  if (tokens.Accept("(") && !tokens.Accept(")")) {
    do {
      GPUETA_ASSIGN_OR_RETURN(PtxParameter parameter, ReadParameter(tokens));
      bytes += parameter.bytes;
      entry.parameters.push_back(std::move(parameter));
      if (entry.parameters.size() > kMaxParameters || bytes > kMaxParameterBytes)
        return tokens.Unexpected("fewer parameters");
    } while (tokens.Accept(","));
    if (!tokens.Accept(")")) return tokens.Unexpected("\")\"");
  }
  GPUETA_RETURN_IF_ERROR(ReadDirectives(tokens, entry));
  return entry;
}

std::size_t SizeOf(const KernelManifest::Argument& argument) {
  struct Visitor {
    std::size_t operator()(const BufferArgument&) const { return 8; }
    std::size_t operator()(const Int32Argument&) const { return 4; }
    std::size_t operator()(const Int64Argument&) const { return 8; }
    std::size_t operator()(float) const { return 4; }
    std::size_t operator()(double) const { return 8; }
    std::size_t operator()(const ZerosArgument& zeros) const { return static_cast<std::size_t>(zeros.bytes); }
  };
  return std::visit(Visitor(), argument.value);
}

}  // namespace

absl::StatusOr<PtxHeader> ReadPtxHeader(std::string_view text) {
  PtxHeader header;
  Tokens tokens(text);
  if (!tokens.Accept(".version")) return tokens.Unexpected(".version");
  header.version = tokens.Take();
  if (!tokens.Accept(".target")) return tokens.Unexpected(".target");
  header.target = tokens.Take();
  while (!tokens.done()) {
    if (tokens.Accept("{")) {
      GPUETA_RETURN_IF_ERROR(SkipBody(tokens));
    } else if (tokens.Take() == ".entry") {
      if (header.entries.size() == kMaxEntries) return tokens.Unexpected("fewer kernels");
      GPUETA_ASSIGN_OR_RETURN(PtxEntry entry, ReadEntry(tokens));
      header.entries.push_back(std::move(entry));
    }
  }
  return header;
}

absl::Status CheckParameters(const KernelManifest& manifest, const PtxHeader& ptx) {
  const auto entry = std::ranges::find(ptx.entries, manifest.entry, &PtxEntry::name);
  if (entry == ptx.entries.end()) {
    std::vector<std::string_view> names;
    for (const PtxEntry& other : ptx.entries) names.emplace_back(other.name);
    return FieldError("entry", fmt::format("{} has no kernel \"{}\"; it has {}", manifest.file, manifest.entry,
                                           names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  for (std::size_t i = 0; i < std::max(manifest.arguments.size(), entry->parameters.size()); ++i) {
    const std::string field = fmt::format("arguments[{}]", i);
    if (i >= manifest.arguments.size())
      return FieldError("arguments",
                        fmt::format("are {}, but {} takes {}: {} of {} bytes is missing", i, entry->name,
                                    entry->parameters.size(), entry->parameters[i].name, entry->parameters[i].bytes));
    if (i >= entry->parameters.size())
      return FieldError(field, fmt::format("is one too many: {} takes {}", entry->name, i));
    const std::size_t has = SizeOf(manifest.arguments[i]);
    if (static_cast<std::int64_t>(has) != entry->parameters[i].bytes)
      return FieldError(field, fmt::format("has {} bytes, but {} of {} has {}", has, entry->parameters[i].name,
                                           entry->name, entry->parameters[i].bytes));
  }
  return absl::OkStatus();
}

}  // namespace gpueta
