#include "core/importers/onnx/onnx_importer.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/errors.h"
#include "core/importers/onnx/graph_builder.h"
#include "core/importers/onnx/read_model.h"

namespace gpueta {
namespace {

using onnx_import::BuildGraph;
using onnx_import::ReadModel;

absl::StatusOr<Graph> Import(google::protobuf::io::ZeroCopyInputStream& stream, std::int64_t size,
                             std::string display_name) {
  GPUETA_ASSIGN_OR_RETURN(const auto model, ReadModel(stream, size));
  return BuildGraph(*model, std::move(display_name));
}

absl::StatusOr<Graph> ImportDescriptor(int descriptor, std::string display_name) {
  google::protobuf::io::FileInputStream stream(descriptor);
  stream.SetCloseOnDelete(true);
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return InvalidArgument("is no regular file");
  return Import(stream, status.st_size, std::move(display_name));
}

}  // namespace

absl::StatusOr<Graph> ImportOnnx(std::string_view bytes, std::string display_name) {
  // The size of the stream is an int; what is longer is refused by its size.
  const auto size = static_cast<std::int64_t>(bytes.size());
  google::protobuf::io::ArrayInputStream stream(bytes.data(),
                                                static_cast<int>(std::min(size, onnx_import::kMaxFileBytes)));
  return Import(stream, size, std::move(display_name));
}

absl::StatusOr<Graph> ImportOnnxFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return NotFound("{}: cannot be opened: {}", path, std::strerror(errno));
  absl::StatusOr<Graph> graph = ImportDescriptor(descriptor, std::filesystem::path(path).stem().string());
  if (!graph.ok()) return Prefixed(graph.status(), path);
  return graph;
}

}  // namespace gpueta
