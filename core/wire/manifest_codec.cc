#include "core/wire/manifest_codec.h"

#include <cmath>

#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/wire/enum_codec.h"
#include "core/wire/graph_codec.h"
#include "core/wire/text_format.h"

namespace gpueta::wire {
namespace {

// Far above any real one.
constexpr std::size_t kMaxManifestBytes = std::size_t{1} << 20;

// An empty text is `otherwise`.
absl::Status DecodeExpression(std::string_view field, const std::string& text, SymInt otherwise, SymInt& out) {
  out = std::move(otherwise);
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<SymInt> value = SymInt::Parse(text);
  if (!value.ok()) return InField(field, value.status());
  out = *value;
  return absl::OkStatus();
}

absl::Status DecodeRequired(std::string_view field, const std::string& text, SymInt& out) {
  if (text.empty()) return FieldError(field, "is empty; give an expression");
  return DecodeExpression(field, text, 0, out);
}

absl::Status DecodeOptional(std::string_view field, const std::string& text, std::optional<SymInt>& out) {
  if (text.empty()) return absl::OkStatus();
  return DecodeExpression(field, text, 0, out.emplace());
}

absl::Status DecodeExtent(const v1::KernelManifest::Extent& message, KernelManifest::Extent& out) {
  GPUETA_RETURN_IF_ERROR(DecodeExpression("x", message.x(), 1, out.x));
  GPUETA_RETURN_IF_ERROR(DecodeExpression("y", message.y(), 1, out.y));
  return DecodeExpression("z", message.z(), 1, out.z);
}

absl::Status DecodeBuffer(const v1::KernelManifest::Buffer& message, BufferArgument& out) {
  GPUETA_RETURN_IF_ERROR(DecodeRequired("bytes", message.bytes(), out.bytes));
  switch (message.fill()) {
    case v1::KernelManifest::Buffer::FILL_UNSPECIFIED:
    case v1::KernelManifest::Buffer::FILL_RANDOM: return absl::OkStatus();
    case v1::KernelManifest::Buffer::FILL_ZERO: out.fill = BufferArgument::Fill::kZero; return absl::OkStatus();
    default: return FieldError("fill", "is unknown; give FILL_RANDOM or FILL_ZERO");
  }
}

template <class Number>
absl::Status CheckFinite(std::string_view field, Number value) {
  return std::isfinite(value) ? absl::OkStatus() : FieldError(field, "is not a finite number");
}

absl::Status DecodeArgument(const v1::KernelManifest::Argument& message, KernelManifest::Argument& out) {
  using Message = v1::KernelManifest::Argument;
  out.name = message.name();
  switch (message.value_case()) {
    case Message::kBuffer:
      return InField("buffer", DecodeBuffer(message.buffer(), out.value.emplace<BufferArgument>()));
    case Message::kInt32: return DecodeRequired("int32", message.int32(), out.value.emplace<Int32Argument>().value);
    case Message::kInt64: return DecodeRequired("int64", message.int64(), out.value.emplace<Int64Argument>().value);
    case Message::kFloat32: out.value = message.float32(); return CheckFinite("float32", message.float32());
    case Message::kFloat64: out.value = message.float64(); return CheckFinite("float64", message.float64());
    case Message::kZeroBytes: out.value = ZerosArgument{message.zero_bytes()}; return absl::OkStatus();
    case Message::VALUE_NOT_SET: break;
  }
  return InvalidArgument("has no value; give one of buffer, int32, int64, float32, float64 and zero_bytes");
}

KernelManifest::Dim DecodeDim(const v1::KernelManifest::Dim& message) {
  return {message.name(),
          message.low(),
          message.high(),
          message.multiple_of() == 0 ? 1 : message.multiple_of(),
          {message.values().begin(), message.values().end()}};
}

std::string At(std::string_view list, int i) { return fmt::format("{}[{}]", list, i); }

}  // namespace

absl::StatusOr<KernelManifest> Decode(const v1::KernelManifest& message) {
  KernelManifest manifest;
  manifest.name = message.name();
  manifest.file = message.file();
  manifest.entry = message.entry();
  GPUETA_ASSIGN_OR_RETURN(manifest.dtype, DecodeDType(message.dtype(), "dtype"));
  for (const auto& dim : message.dims()) manifest.dims.push_back(DecodeDim(dim));
  for (int i = 0; i < message.definitions_size(); ++i) {
    KernelManifest::Definition& definition = manifest.definitions.emplace_back();
    definition.name = message.definitions(i).name();
    GPUETA_RETURN_IF_ERROR(
        InField(At("definitions", i), DecodeRequired("value", message.definitions(i).value(), definition.value)));
  }
  GPUETA_RETURN_IF_ERROR(InField("grid", DecodeExtent(message.grid(), manifest.grid)));
  GPUETA_RETURN_IF_ERROR(InField("block", DecodeExtent(message.block(), manifest.block)));
  GPUETA_RETURN_IF_ERROR(DecodeExpression("shared_bytes", message.shared_bytes(), 0, manifest.shared_bytes));
  for (int i = 0; i < message.arguments_size(); ++i) {
    GPUETA_RETURN_IF_ERROR(
        InField(At("arguments", i), DecodeArgument(message.arguments(i), manifest.arguments.emplace_back())));
  }
  GPUETA_RETURN_IF_ERROR(DecodeOptional("flops", message.flops(), manifest.flops));
  GPUETA_RETURN_IF_ERROR(DecodeOptional("bytes", message.bytes(), manifest.bytes));
  if (message.has_computes()) {
    v1::Graph::Node node;
    *node.mutable_kernel() = message.computes().kernel();
    *node.mutable_symbolic_dims() = message.computes().symbolic_dims();
    absl::StatusOr<GraphNode> decoded = DecodeNode(node);
    if (!decoded.ok()) return InField("computes", decoded.status());
    manifest.computes = *std::move(decoded);
  }
  GPUETA_RETURN_IF_ERROR(Validate(manifest));
  return manifest;
}

absl::StatusOr<KernelManifest> ReadManifestText(std::string_view text) {
  if (text.size() > kMaxManifestBytes)
    return InvalidArgument("a manifest of {} bytes is larger than the {} allowed", text.size(), kMaxManifestBytes);
  v1::KernelManifest message;
  google::protobuf::TextFormat::ParseInfoTree locations;
  GPUETA_RETURN_IF_ERROR(ParseTextFormat(text, message, &locations));
  absl::StatusOr<KernelManifest> manifest = Decode(message);
  if (!manifest.ok()) return AtLine(manifest.status(), *message.GetDescriptor(), locations);
  return manifest;
}

absl::StatusOr<KernelManifest> ReadManifestFile(const std::string& path) {
  GPUETA_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  absl::StatusOr<KernelManifest> manifest = ReadManifestText(text);
  if (!manifest.ok()) return Prefixed(manifest.status(), path);
  return manifest;
}

}  // namespace gpueta::wire
